"""Find the parent of new cgroups: one that is delegated to this process, so that the limits of the unit or container
around it apply to runs, and no manager resets ours.

On cgroup v2, ours is the cgroup that a container sees as the root, one that systemd has delegated (Delegate=yes), and
our own where no systemd manages cgroups. From any other, a worker moves to a scope that systemd makes and delegates; it
does not if limits are set for its unit, because the scope would be beside them. A cgroup that gives controllers to
others must not hold processes (https://docs.kernel.org/admin-guide/cgroup-v2.html), so those in it move to a leaf.

On cgroup v1, it is our own cgroup in each hierarchy.
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
from sandbox.jail import stale_resources

_LEAF = "curate-others"  # child of a cgroup that is ours, for the processes that were in it
_SCOPE = "curate-worker-"  # begins the names of our scopes
_REQUIRED_CONTROLLERS = {"memory", "pids"}
_ATTRIBUTES = ("trusted.delegate", "user.delegate")  # set by systemd; the latter since version 252
_LIMITS = {"memory.max": "MemoryMax", "memory.high": "MemoryHigh", "cpu.max": "CPUQuota"}
_DEFAULT_TASKS = 0.15  # of the machine's tasks: systemd's default of TasksMax
_SYSTEMD = Path("/run/systemd/system")  # exists if systemd runs as the system manager, see sd_booted(3)
_REMEDY = "What to do: start it where /sys/fs/cgroup is writable (in a container: docker run --privileged)"
_SCOPE_SECONDS = 20
_KILL_SECONDS = 2


@dataclass(frozen=True, slots=True)
class CgroupSubtree:
    """The cgroups below which a process may make its own.

    version  of the cgroup interface
    bases    controller -> directory; v2 has one directory for all controllers
    """

    version: int
    bases: dict[str, Path]

    def make(self, name: str) -> dict[str, Path]:
        """Make a cgroup and return its directories by controller. Raises OSError."""
        directories = {controller: base / name for controller, base in self.bases.items()}
        try:
            for directory in dict.fromkeys(directories.values()):
                directory.mkdir()
        except OSError as error:
            for directory in set(directories.values()):
                remove(directory)
            raise OSError(f"{error}. {_REMEDY}") from error
        return directories

    def sweep(self) -> None:
        """Remove the cgroups that killed workers have left, with the processes in them, as far as possible."""
        for base in set(self.bases.values()):
            with contextlib.suppress(OSError):
                for name in filter(stale_resources.is_stale, os.listdir(base)):
                    remove(base / name)


def find_subtree(scope_failure: str = "") -> CgroupSubtree:
    """Find the cgroups below which this process may make its own, and give their controllers to new ones.

    scope_failure  why systemd has made no scope for this process; "" if it has, or was not asked

    Raises OSError, with the reason and a remedy.
    """
    own = _own()
    if not _has_controllers(own):
        return _version_1(own)
    ours = _ours(own)
    if ours is None:
        raise PermissionError(scope_failure or f"systemd has not delegated {own['v2'][1]}")
    try:
        _divide(ours)
    except OSError as error:
        raise OSError(f"{error}. {_REMEDY}") from error
    return CgroupSubtree(2, dict.fromkeys(sorted(_REQUIRED_CONTROLLERS), ours))


def sweep() -> None:
    """Remove the cgroups that killed workers have left around this process, as far as possible."""
    with contextlib.suppress(OSError):
        own = _own()
        if not _has_controllers(own):
            _version_1(own).sweep()
        elif (ours := _ours(own)) is not None:
            CgroupSubtree(2, {"memory": ours}).sweep()


def scope_command() -> list[str]:
    """Return the command that starts another in a new scope, which systemd delegates; empty if none is needed.

    Raises OSError, with the reason and a remedy, if one is needed but cannot be made.
    """
    own = _own()
    if not _has_controllers(own) or _ours(own) is not None:
        return []
    directory = own["v2"][1]
    _check_for_limits(directory)
    is_root = os.geteuid() == 0
    if shutil.which("systemd-run") is None:
        raise FileNotFoundError("systemd has not delegated a cgroup, and there is no systemd-run; install systemd")
    if not is_root and not _user_manager().exists():
        raise FileNotFoundError(
            f"systemd has not delegated a cgroup, and no systemd of this user runs ({_user_manager()} is missing);"
            " type: sudo systemd-run --uid=$USER -p Delegate=yes --pty COMMAND"
        )
    command = ["systemd-run", "--quiet", "--collect", "--scope", "--property=Delegate=yes"]
    slices = [each.name for each in (directory, *directory.parents) if each.name.endswith(".slice")]
    if not is_root:
        command.append("--user")
    elif slices:
        command.append(f"--slice={slices[0]}")
    return [*command, f"--unit={_SCOPE}{uuid.uuid4()}", "--"]


def scope_environment() -> dict[str, str]:
    """Return the variables by which systemd-run finds the manager of this user."""
    return {"XDG_RUNTIME_DIR": f"/run/user/{os.geteuid()}"}


def scope_failure_reason() -> str:
    """Return why systemd makes no scope for this process, with a remedy; "" if it does, or none is needed."""
    try:
        command = scope_command()
        if not command:
            return ""
        environment = {"PATH": os.defpath, **scope_environment()}
        done = subprocess.run(
            [*command, "true"], env=environment, capture_output=True, text=True, timeout=_SCOPE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return ""
    start = "systemd-run" if os.geteuid() == 0 else "sudo systemd-run --uid=$USER"
    return f"systemd-run failed: {done.stderr.strip()[:500]}; type: {start} -p Delegate=yes --pty COMMAND"


def remove(directory: Path) -> None:
    """Kill all processes in a cgroup and remove it, as far as possible."""
    deadline = time.monotonic() + _KILL_SECONDS
    while True:
        try:
            directory.rmdir()
        except FileNotFoundError:
            return
        except OSError:  # a killed process leaves its cgroup with a delay
            if time.monotonic() > deadline:
                return
            _kill(directory)
            time.sleep(0.01)
        else:
            return


def _kill(directory: Path) -> None:
    with contextlib.suppress(OSError):
        (directory / "cgroup.kill").write_text("1")  # v2, Linux 5.14
        return
    with contextlib.suppress(OSError):
        for pid in map(int, (directory / "cgroup.procs").read_text().split()):
            if pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _own() -> dict[str, tuple[Path, Path]]:
    return machine.cgroups(*machine.memberships_and_mounts())


def _has_controllers(own: dict[str, tuple[Path, Path]]) -> bool:
    """Return whether the unified hierarchy has the required controllers; in a hybrid setup, v1 has them."""
    if "v2" in own:
        with contextlib.suppress(OSError):  # it is hidden by another mount
            return set((own["v2"][0] / "cgroup.controllers").read_text().split()) >= _REQUIRED_CONTROLLERS
    return False


def _ours(own: dict[str, tuple[Path, Path]]) -> Path | None:
    """Return the v2 cgroup below which this process may make others; None if there is none."""
    point, directory = own["v2"]
    ours = directory.parent if directory.name == _LEAF else directory
    return ours if ours == point or not _SYSTEMD.exists() or _is_delegated(ours) else None


def _is_delegated(directory: Path) -> bool:
    if directory.name.startswith(_SCOPE):  # older versions of a user's systemd do not mark it
        return True
    for name in _ATTRIBUTES:
        with contextlib.suppress(OSError):
            return os.getxattr(directory, name) == b"1"
    return False


def _divide(ours: Path) -> None:
    """Enable the controllers of a v2 cgroup for its children. Raises OSError."""
    control = ours / "cgroup.subtree_control"
    for _ in range(10):  # processes may start new ones meanwhile
        try:
            control.write_text("+memory +pids")
            break
        except OSError as error:
            reason = error
        _empty(ours)
    else:
        raise reason
    with contextlib.suppress(OSError):
        control.write_text("+cpu")


def _empty(ours: Path) -> None:
    """Move the processes of a v2 cgroup to a leaf. Raises OSError."""
    leaf = ours / _LEAF
    pids = (ours / "cgroup.procs").read_text().split()
    if "0" in pids:
        raise PermissionError(f"{ours} holds processes of a pid namespace that this process does not see")
    leaf.mkdir(exist_ok=True)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            (leaf / "cgroup.procs").write_text(pid)


def _version_1(own: dict[str, tuple[Path, Path]]) -> CgroupSubtree:
    if not {"memory", "pids", "cpuacct"} <= own.keys():
        raise FileNotFoundError(f"no cgroup has the controllers memory and pids. {_REMEDY}")
    names = [name for name in ("memory", "pids", "cpuacct", "cpu") if name in own]
    return CgroupSubtree(1, {name: own[name][1] for name in names})


def _check_for_limits(directory: Path) -> None:
    """Raise PermissionError if limits are set for the unit that a cgroup belongs to: a scope would be beside them."""
    unit = next((each for each in (directory, *directory.parents) if each.name.endswith((".service", ".scope"))), None)
    limits = sorted(set(_limits(directory, unit))) if unit is not None else []
    if unit is not None and limits:
        raise PermissionError(
            f"{unit.name} has {' and '.join(limits)} but not Delegate=yes, and nothing may run beside it; start it with"
            f" systemd-run -p Delegate=yes, or type: systemctl edit {unit.name}"
        )


def _user_manager() -> Path:
    return Path(f"/run/user/{os.geteuid()}/systemd/private")


def _limits(directory: Path, unit: Path) -> Iterator[str]:
    """Yield the settings that limit a unit, as a cgroup in it shows them."""
    while True:
        for name, setting in _LIMITS.items():
            if _first_word(directory / name) not in ("", "max"):
                yield setting
        n_tasks = _first_word(directory / "pids.max")
        if n_tasks.isdecimal() and int(n_tasks) < int(_DEFAULT_TASKS * _n_tasks_of_machine()):
            yield "TasksMax"
        if directory == unit:
            return
        directory = directory.parent


def _n_tasks_of_machine() -> int:
    return min(int(_first_word(Path("/proc/sys/kernel", name)) or 0) for name in ("pid_max", "threads-max"))


def _first_word(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text().split()[0]
    return ""
