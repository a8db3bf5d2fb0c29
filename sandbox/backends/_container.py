"""The privileges of a container of the docker backend: no more than its worker needs.

It has no network, no capabilities and no way to get any, a root that it cannot write to, and bounds for memory,
processors and processes. Unlike an ordinary container, it may make user namespaces and mount file systems in them, as
an unprivileged user may on a plain machine. The worker confines programs in these (sandbox/jail); programs may do
neither.

All of /proc is visible, since the kernel refuses to mount a new one where parts of the old one are hidden. The worker
is an unprivileged user there: it cannot write files of root, such as kernel settings, nor read the sensitive ones.
Programs see only their own processes.
"""

import errno
import json
from typing import Any

from sandbox.jail import seccomp, system_calls

MAX_PROCESSES = 4096
_SCRATCH_MB = 256  # for programs where there are no namespaces, otherwise unused
_PROCESSORS = 2  # one for the program, one for an interactive referee
_PERIOD_MICROSECONDS = 100_000
_AF_UNIX = 1
_OF_WORKERS = frozenset(
    "pivot_root mount_setattr setgroups landlock_create_ruleset landlock_add_rule".split()
)  # before they have a filter
_REFUSED = {"action": "SCMP_ACT_ERRNO", "errnoRet": errno.EPERM}


def host_config(memory_mb: int, *, apparmor: bool) -> dict[str, Any]:
    """Return the HostConfig of the engine's API.

    apparmor   whether the engine confines containers by AppArmor; its profile would refuse all mounts
    """
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
        "MemorySwap": memory_mb << 20,  # memory and swap together: no swap
        "CpuPeriod": _PERIOD_MICROSECONDS,  # not NanoCpus, which an engine with one processor refuses
        "CpuQuota": _PROCESSORS * _PERIOD_MICROSECONDS,
        "PidsLimit": MAX_PROCESSES,
        "Ulimits": [{"Name": "core", "Soft": 1, "Hard": 1}],
        "LogConfig": {"Type": "none"},
    }


def _calls() -> str:
    """Return the seccomp profile: the calls that programs may make, always or under conditions, and those that their
    worker needs to shut them in. The filter that programs get, with all its conditions, applies in addition."""
    allowed = {
        *system_calls.ALLOWED,
        *system_calls.NO_OP,
        *system_calls.ZYGOTE_ONLY,
        *seccomp.CONDITIONAL,
        *_OF_WORKERS,
    }
    sockets = {"socket", "socketpair"}
    is_unix = [{"index": 0, "value": _AF_UNIX, "op": "SCMP_CMP_EQ"}]
    return json.dumps(
        {
            "defaultAction": "SCMP_ACT_ERRNO",
            "defaultErrnoRet": errno.ENOSYS,
            "syscalls": [
                {"names": sorted(allowed - sockets), "action": "SCMP_ACT_ALLOW"},
                {"names": sorted(sockets), "args": is_unix, "action": "SCMP_ACT_ALLOW"},
                {"names": sorted(sockets), "args": [{**is_unix[0], "op": "SCMP_CMP_NE"}], **_REFUSED},
                {"names": sorted(system_calls.DENIED - _OF_WORKERS), **_REFUSED},
                # Engines that do not know defaultErrnoRet say EPERM, at which libc does not fall back on clone.
                {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.ENOSYS},
            ],
        }
    )
