"""The privileges of the containers of the docker backend: no more than a worker needs.

It has no network, no capabilities, no_new_privs, a read-only root, and limits on memory, processors and processes.
Unlike an ordinary container, it may create user namespaces and mount file systems in them. The worker uses these to
confine programs (sandbox/jail); programs themselves may do neither.

No path of /proc is masked, since the kernel refuses to mount another /proc if one is. The unprivileged worker can
neither write kernel settings nor read root's files, and programs see only their own processes.
"""

import errno
import json
from typing import Any

from sandbox.kernel import seccomp, system_calls

MAX_PROCESSES = 4096
_SCRATCH_MB = 256  # size of /tmp, used only by programs without namespaces
_MAX_PROCESSORS = 2  # one for the program, one for an interactive referee
_PERIOD_MICROSECONDS = 100_000
_AF_UNIX = 1
# System calls with which a worker prepares the isolation of programs; the seccomp filter of programs denies them.
_WORKER_CALLS = frozenset("pivot_root mount_setattr setgroups landlock_create_ruleset landlock_add_rule".split())
_DENY = {"action": "SCMP_ACT_ERRNO", "errnoRet": errno.EPERM}


def make_host_config(memory_mb: int, *, apparmor: bool) -> dict[str, Any]:
    """Return the HostConfig of a container for the engine's API.

    apparmor   whether the engine uses AppArmor, whose default profile would deny all mounts
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
            f"seccomp={_make_seccomp_profile()}",
            *(["apparmor=unconfined"] if apparmor else []),
        ],
        "MaskedPaths": [],
        "ReadonlyPaths": [],
        "Memory": memory_mb << 20,
        "MemorySwap": memory_mb << 20,  # the sum of memory and swap, so no swap
        "CpuPeriod": _PERIOD_MICROSECONDS,  # not NanoCpus, which an engine with one processor rejects
        "CpuQuota": _MAX_PROCESSORS * _PERIOD_MICROSECONDS,
        "PidsLimit": MAX_PROCESSES,
        "Ulimits": [{"Name": "core", "Soft": 1, "Hard": 1}],
        "LogConfig": {"Type": "none"},
    }


def _make_seccomp_profile() -> str:
    """Return the seccomp profile of a container as JSON.

    It allows the system calls of the worker and its programs; programs also have a stricter filter.
    """
    allowed = {
        *system_calls.ALLOWED,
        *system_calls.NO_OP,
        *system_calls.ZYGOTE_ONLY,
        *seccomp.CONDITIONAL,
        *_WORKER_CALLS,
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
                {"names": sorted(sockets), "args": [{**is_unix[0], "op": "SCMP_CMP_NE"}], **_DENY},
                {"names": sorted(system_calls.DENIED - _WORKER_CALLS), **_DENY},
                # Engines without defaultErrnoRet return EPERM, for which libc does not fall back to clone.
                {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.ENOSYS},
            ],
        }
    )
