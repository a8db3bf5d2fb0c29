"""The parent cgroup below which a worker creates its cgroups. It must be delegated: otherwise its manager, such as
systemd, may reset the limits of runs. The limits of the enclosing unit or container also apply to runs.

On cgroup v1, the parent is the process's own cgroup in each hierarchy. On cgroup v2, it is the root cgroup in a
container, a cgroup that systemd has delegated (Delegate=yes) or, without systemd, the process's own cgroup. Elsewhere
the worker starts in a delegated scope of systemd, unless its unit has limits, which would not apply to the scope.

A v2 cgroup with controllers for its children must not hold processes
(https://docs.kernel.org/admin-guide/cgroup-v2.html), so this module moves them to a leaf cgroup.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sandbox import machine
from sandbox.kernel import stale_resources

_LEAF = "curate-others"  # name of the leaf for the processes of a delegated cgroup
_SCOPE_PREFIX = "curate-worker-"  # prefix of the names of workers' scopes
_REQUIRED_CONTROLLERS = {"memory", "pids"}
_ATTRIBUTES = ("trusted.delegate", "user.delegate")  # set by systemd; the latter since version 252
_LIMITS = {"memory.max": "MemoryMax", "memory.high": "MemoryHigh", "cpu.max": "CPUQuota"}
_DEFAULT_TASKS = 0.15  # systemd's default of TasksMax, as a fraction of the machine's maximum
_SYSTEMD = Path("/run/systemd/system")  # exists if systemd runs as the system manager, see sd_booted(3)
_REMEDY = "Start the sandbox where /sys/fs/cgroup is writable (in a container: docker run --privileged)"
_SCOPE_SECONDS = 20
_KILL_SECONDS = 2


@dataclass(frozen=True, slots=True)
class CgroupSubtree:
    """The parent cgroups below which a process may create its own.

    version  version of the cgroup interface, 1 or 2
    bases    controller -> directory; v2 has one directory for all controllers
    """

    version: int
    bases: dict[str, Path]

    def make(self, name: str) -> dict[str, Path]:
        """Create a cgroup and return its directories by controller. Raises OSError."""
        directories = {controller: base / name for controller, base in self.bases.items()}
        try:
            for directory in dict.fromkeys(directories.values()):
                directory.mkdir()
        except OSError as error:
            for directory in set(directories.values()):
                remove_cgroup(directory)
            raise OSError(f"{error}. {_REMEDY}") from error
        return directories

    def sweep(self) -> None:
        """Remove the stale cgroups of killed workers, and kill the processes in them. Ignores errors."""
        for base in set(self.bases.values()):
            with contextlib.suppress(OSError):
                for name in filter(stale_resources.is_stale, os.listdir(base)):
                    remove_cgroup(base / name)


def find_subtree(scope_failure: str = "") -> CgroupSubtree:
    """Find the parent cgroups of this process, and enable the required controllers in them.

    scope_failure  why systemd created no scope for this process; "" if it created one, or none is necessary

    Raises OSError, with the reason and a remedy.
    """
    memberships = _read_memberships()
    if not _has_controllers(memberships):
        return _make_v1_subtree(memberships)
    cgroup = _find_delegated_cgroup(memberships)
    if cgroup is None:
        raise PermissionError(
            scope_failure or f"systemd has not delegated {memberships['v2'][1]}; start it with Delegate=yes"
        )
    try:
        _enable_controllers(cgroup)
    except OSError as error:
        raise OSError(f"{error}. {_REMEDY}") from error
    return CgroupSubtree(2, dict.fromkeys(sorted(_REQUIRED_CONTROLLERS), cgroup))


def sweep_cgroups() -> None:
    """Remove the stale cgroups of killed workers below the parent cgroups of this process. Ignores errors."""
    with contextlib.suppress(OSError):
        memberships = _read_memberships()
        if not _has_controllers(memberships):
            _make_v1_subtree(memberships).sweep()
        elif (cgroup := _find_delegated_cgroup(memberships)) is not None:
            CgroupSubtree(2, {"memory": cgroup}).sweep()


def make_scope_command() -> list[str]:
    """Return the command prefix that starts a process in a new, delegated scope; empty if no scope is necessary.

    Raises OSError, with the reason and a remedy, if systemd cannot create a necessary scope.
    """
    memberships = _read_memberships()
    if not _has_controllers(memberships) or _find_delegated_cgroup(memberships) is not None:
        return []
    directory = memberships["v2"][1]
    _check_for_limits(directory)
    is_root = os.geteuid() == 0
    if shutil.which("systemd-run") is None:
        raise FileNotFoundError("systemd has not delegated a cgroup, and systemd-run is missing; install systemd")
    user_manager = Path(f"/run/user/{os.geteuid()}/systemd/private")
    if not is_root and not user_manager.exists():
        raise FileNotFoundError(
            f"systemd has not delegated a cgroup, and this user has no systemd manager ({user_manager} is missing);"
            " type: sudo systemd-run --uid=$USER -p Delegate=yes --pty COMMAND"
        )
    command = ["systemd-run", "--quiet", "--collect", "--scope", "--property=Delegate=yes"]
    slices = [each.name for each in (directory, *directory.parents) if each.name.endswith(".slice")]
    if not is_root:
        command.append("--user")
    elif slices:
        command.append(f"--slice={slices[0]}")
    return [*command, f"--unit={_SCOPE_PREFIX}{uuid.uuid4()}", "--"]


def make_scope_environment() -> dict[str, str]:
    """Return the environment variables that systemd-run needs to find the user's manager."""
    return {"XDG_RUNTIME_DIR": f"/run/user/{os.geteuid()}"}


def explain_scope_failure() -> str:
    """Explain why systemd cannot create a scope, with a remedy; return "" if it can, or if none is necessary."""
    try:
        command = make_scope_command()
        if not command:
            return ""
        environment = {"PATH": os.defpath, **make_scope_environment()}
        process = subprocess.run(
            [*command, "true"], env=environment, capture_output=True, text=True, timeout=_SCOPE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if process.returncode == 0:
        return ""
    start = "systemd-run" if os.geteuid() == 0 else "sudo systemd-run --uid=$USER"
    return f"systemd-run failed: {process.stderr.strip()[:500]}; type: {start} -p Delegate=yes --pty COMMAND"


def remove_cgroup(directory: Path) -> None:
    """Kill all processes in a cgroup and remove it. Ignores errors."""
    deadline = time.monotonic() + _KILL_SECONDS
    while True:
        try:
            directory.rmdir()
        except FileNotFoundError:
            return
        except OSError:  # EBUSY: a killed process leaves its cgroup with a delay
            if time.monotonic() > deadline:
                return
            _kill_processes(directory)
            time.sleep(0.01)
        else:
            return


def _kill_processes(directory: Path) -> None:
    with contextlib.suppress(OSError):
        (directory / "cgroup.kill").write_text("1")  # v2 since Linux 5.14
        return
    with contextlib.suppress(OSError):
        for pid in map(int, (directory / "cgroup.procs").read_text().split()):
            if pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _read_memberships() -> dict[str, tuple[Path, Path]]:
    return machine.find_cgroups(*machine.read_memberships_and_mounts())


def _has_controllers(memberships: dict[str, tuple[Path, Path]]) -> bool:
    """Return whether the unified hierarchy has the required controllers; in a hybrid setup, v1 has them."""
    if "v2" in memberships:
        with contextlib.suppress(OSError):  # another mount may hide it
            return set((memberships["v2"][0] / "cgroup.controllers").read_text().split()) >= _REQUIRED_CONTROLLERS
    return False


def _find_delegated_cgroup(memberships: dict[str, tuple[Path, Path]]) -> Path | None:
    """Return the v2 cgroup below which this process may create cgroups; None without delegation."""
    point, directory = memberships["v2"]
    cgroup = directory.parent if directory.name == _LEAF else directory
    return cgroup if cgroup == point or not _SYSTEMD.exists() or _is_delegated(cgroup) else None


def _is_delegated(directory: Path) -> bool:
    if directory.name.startswith(_SCOPE_PREFIX):  # systemd's user managers before 252 do not set the attribute
        return True
    for name in _ATTRIBUTES:
        with contextlib.suppress(OSError):
            return os.getxattr(directory, name) == b"1"
    return False


def _enable_controllers(cgroup: Path) -> None:
    control = cgroup / "cgroup.subtree_control"
    for _ in range(10):  # processes may fork while they are moved
        try:
            control.write_text("+memory +pids")
            break
        except OSError as error:
            reason = error
        _move_processes_to_leaf(cgroup)
    else:
        raise reason
    with contextlib.suppress(OSError):
        control.write_text("+cpu")


def _move_processes_to_leaf(cgroup: Path) -> None:
    leaf = cgroup / _LEAF
    pids = (cgroup / "cgroup.procs").read_text().split()
    if "0" in pids:
        raise PermissionError(f"{cgroup} holds processes of another pid namespace, which cannot be moved from here")
    leaf.mkdir(exist_ok=True)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            (leaf / "cgroup.procs").write_text(pid)


def _make_v1_subtree(memberships: dict[str, tuple[Path, Path]]) -> CgroupSubtree:
    if not {"memory", "pids", "cpuacct"} <= memberships.keys():
        raise FileNotFoundError(f"the cgroups of this process lack the controllers memory and pids. {_REMEDY}")
    names = [name for name in ("memory", "pids", "cpuacct", "cpu") if name in memberships]
    return CgroupSubtree(1, {name: memberships[name][1] for name in names})


def _check_for_limits(directory: Path) -> None:
    """Raise PermissionError if the cgroup's unit has limits, since they would not apply to a scope."""
    unit = next((each for each in (directory, *directory.parents) if each.name.endswith((".service", ".scope"))), None)
    limits = sorted(set(_find_limits(directory, unit))) if unit is not None else []
    if unit is not None and limits:
        raise PermissionError(
            f"{unit.name} has {' and '.join(limits)} but not Delegate=yes, and would not limit a scope; start it with"
            f" systemd-run -p Delegate=yes, or type: systemctl edit {unit.name}"
        )


def _find_limits(directory: Path, unit: Path) -> Iterator[str]:
    """Yield the settings that limit a unit, according to the files of its cgroups."""
    while True:
        for name, setting in _LIMITS.items():
            if _read_first_word(directory / name) not in ("", "max"):
                yield setting
        n_tasks = _read_first_word(directory / "pids.max")
        if n_tasks.isdecimal() and int(n_tasks) < int(_DEFAULT_TASKS * _read_max_tasks()):
            yield "TasksMax"
        if directory == unit:
            return
        directory = directory.parent


def _read_max_tasks() -> int:
    return min(int(_read_first_word(Path("/proc/sys/kernel", name)) or 0) for name in ("pid_max", "threads-max"))


def _read_first_word(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text().split()[0]
    return ""
