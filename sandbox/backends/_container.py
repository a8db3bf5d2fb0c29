"""What a container of the docker backend may do: as little as the worker in it needs.

It has no network, no capabilities and no way to get any, a root that it cannot write to, and bounds for memory and
processes. What it may do beyond an ordinary container is what an ordinary user may on a plain machine: make user
namespaces, and mounts in them. The worker shuts programs into those (sandbox/jail), and they may do none of it.

/proc is shown whole, for the kernel lets nobody mount a new one where parts of the old are hidden. In it the worker is
an ordinary user without capabilities: what is root's, as all settings of the kernel are, it can neither write nor, if
it matters, read. Programs see their own processes only.
"""

import json
from typing import Any

from sandbox.jail import seccomp

PROCESSES = 4096
_SCRATCH_MB = 256  # for programs where there are no namespaces, otherwise unused
_AF_UNIX = 1


def host_config(memory_mb: int, *, apparmor: bool) -> dict[str, Any]:
    """HostConfig of the engine's API. apparmor: whether the engine confines containers by it; its profile would refuse
    all mounts."""
    return {
        "AutoRemove": True,
        "NetworkMode": "none",
        "IpcMode": "none",
        "ReadonlyRootfs": True,
        "Tmpfs": {"/tmp": f"rw,nosuid,nodev,exec,size={_SCRATCH_MB}m,mode=1777"},
        "CapDrop": ["ALL"],
        "SecurityOpt": [
            "no-new-privileges",
            f"seccomp={_calls()}",
            *(["apparmor=unconfined"] if apparmor else []),
        ],
        "MaskedPaths": [],
        "ReadonlyPaths": [],
        "Memory": memory_mb << 20,
        "MemorySwap": memory_mb << 20,  # the sum of both: no swap
        "PidsLimit": PROCESSES,
        "Ulimits": [{"Name": "core", "Soft": 0, "Hard": 0}],
        "LogConfig": {"Type": "none"},
    }


def _calls() -> str:
    """The seccomp profile: the calls that programs are refused, less those that only the worker must make."""
    refused = {"action": "SCMP_ACT_ERRNO"}
    not_unix = [{"index": 0, "value": _AF_UNIX, "op": "SCMP_CMP_NE"}]
    return json.dumps(
        {
            "defaultAction": "SCMP_ACT_ALLOW",
            "syscalls": [
                {"names": sorted(seccomp.REFUSED), **refused},
                {"names": ["socket", "socketpair"], "args": not_unix, **refused},
            ],
        }
    )
