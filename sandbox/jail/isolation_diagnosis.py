"""Diagnosis of a machine's settings that prevent a level of isolation."""

import os
from collections.abc import Iterator
from pathlib import Path

from sandbox.jail.worker_config import LANDLOCK, NAMESPACES

_CAP_SYS_ADMIN = 1 << 21
# Settings that can deny user namespaces to ordinary users: name -> value that denies them.
_USERNS_SETTINGS = {"kernel.unprivileged_userns_clone": "0", "kernel.apparmor_restrict_unprivileged_userns": "1"}


def explain_missing_level(level: str, error: str) -> str:
    """Append the settings that may prevent a level of isolation to the error of a failed call."""
    found = list({NAMESPACES: _find_namespace_obstacles, LANDLOCK: _find_landlock_obstacles}[level]())
    return f"{error} (found: {'; '.join(found)})" if found else error


def _find_namespace_obstacles() -> Iterator[str]:
    if _read_setting("user.max_user_namespaces") == "0":
        yield "user.max_user_namespaces is 0; type: sysctl user.max_user_namespaces=10000"
    if not _read_status("CapEff", 16) & _CAP_SYS_ADMIN:
        for name, denying_value in _USERNS_SETTINGS.items():
            if _read_setting(name) == denying_value:
                yield f"{name} is {denying_value}; type: sysctl {name}={1 - int(denying_value)}"
    yield from _find_filter_obstacles()
    masked = [line.split()[4] for line in _read("/proc/self/mountinfo").splitlines() if " /proc/" in line]
    if masked:
        yield f"{masked[0]} and {len(masked) - 1} other paths below /proc are hidden by mounts, as in a container"


def _find_landlock_obstacles() -> Iterator[str]:
    modules = _read("/sys/kernel/security/lsm").strip()
    release = os.uname().release
    if tuple(int("".join(filter(str.isdigit, part)) or 0) for part in release.split(".")[:2]) < (5, 13):
        yield f"Linux {release} has no Landlock, which requires 5.13"
    elif modules and "landlock" not in modules.split(","):
        yield f"Landlock is not among the kernel's security modules: boot with lsm=landlock,{modules}"
    else:
        yield from _find_filter_obstacles()


def _find_filter_obstacles() -> Iterator[str]:
    if _read_status("Seccomp", 10) == 2:
        yield "a seccomp filter applies to this process, such as a container's"


def _read_setting(name: str) -> str:
    return _read(f"/proc/sys/{name.replace('.', '/')}").strip()


def _read_status(name: str, base: int) -> int:
    lines = (line.split() for line in _read("/proc/self/status").splitlines())
    return next((int(fields[1], base) for fields in lines if fields[0] == f"{name}:"), 0)


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
