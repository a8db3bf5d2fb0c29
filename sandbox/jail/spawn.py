"""Start a zygote in its namespaces, and end it: the warden's side of zygote.py."""

import contextlib
import json
import os
import resource
import signal
import socket
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from sandbox import languages
from sandbox.jail import image, linux, rootfs
from sandbox.jail.cgroups import Cgroup
from sandbox.jail.child import PACKAGES
from sandbox.jail.worker_config import NAMESPACES

_NAMESPACES = (
    linux.CLONE_NEWUSER
    | linux.CLONE_NEWPID
    | linux.CLONE_NEWNS
    | linux.CLONE_NEWNET
    | linux.CLONE_NEWIPC
    | linux.CLONE_NEWUTS
)
_FIRST_UID = 1 << 30  # first host uid for judges and programs; far from those of users and containers
_UIDS = 64  # host uids for each worker
_STACK = 1 << 30  # bytes; must be set before exec, which lays out the address space around it
_FIRST_MAPPED_UID = 20_000  # used if the former is not mapped, as in a container with a user namespace
_WORKERS = 600  # number of workers with such uids
# To change to the uid of programs, to kill them, and to open their directory.
_OF_ZYGOTES = (linux.CAP_SETUID, linux.CAP_SETGID, linux.CAP_KILL, linux.CAP_DAC_OVERRIDE)
_STREAMS = 3
_ASIDE = 200  # above all open descriptors of a warden
_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "PYTHONIOENCODING": "utf-8:strict",
    "OPENBLAS_NUM_THREADS": "1",  # threads would not survive the fork
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


@dataclass(frozen=True, slots=True)
class ZygoteKind:
    """The purpose of a zygote.

    compiler_language  the language whose compiler its children become; "" if they run programs
    preloaded_modules  the modules from outside the standard library that it loads; if empty, it lacks these packages
    is_referee         whether it is for referees; then it never runs submissions
    """

    compiler_language: str = ""
    preloaded_modules: tuple[str, ...] = ()
    is_referee: bool = False


@dataclass(frozen=True, slots=True)
class ZygoteConfinement:
    """The isolation level, directories and user of a zygote's runs.

    level           see WorkerConfig
    work_directory  without namespaces, the directory of its runs, as the zygote sees it
    image_copy      without namespaces, the folders of the image, as the zygote sees them
    root            the folder that becomes the root; "" if it stays that of the machine
    owner_uid       without namespaces, the user and group of programs; None: the caller's
    landlock_abi    the version of Landlock that confines runs; 0 if none does
    """

    level: str
    work_directory: str = ""
    image_copy: image.ImageCopy = image.ImageCopy("")
    root: str = ""
    owner_uid: int | None = None
    landlock_abi: int = 0

    def readable_paths(self, kind: ZygoteKind, toolchain: list[str]) -> list[str]:
        """Return the paths that the runs of such a zygote may read and execute, as the zygote sees them."""
        if self.root:
            return [path.removeprefix(self.root) for path in image.readable_paths(self.root)]
        packages = [self.image_copy.packages] if kind.preloaded_modules else []
        return [*image.readable_paths(self.image_copy.root), *packages, *image.loader_paths(), *toolchain]


class ZygoteProcess:
    """A started zygote; `channel` leads to it, and its first message reports readiness or failure.

    seed    determines the hash seed of programs; None leaves it random
    cgroup  the cgroup that it joins; None for none
    turn    distinguishes the zygotes of one worker

    Raises OSError, and CgroupJoinError if the cgroup refuses it.
    """

    def __init__(
        self, kind: ZygoteKind, place: ZygoteConfinement, *, seed: int | None, cgroup: Cgroup | None, turn: int
    ) -> None:
        self._place = place
        namespaces = place.level == NAMESPACES
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.stderr = os.memfd_create("zygote")  # of the interpreter, if it fails
        self.shares_uid = place.owner_uid is None
        self.user = _user_without_namespaces(place.owner_uid)
        toolchain = languages.load(kind.compiler_language).toolchain() if kind.compiler_language else []
        environment = dict(_ENVIRONMENT)
        if seed is not None:
            environment["PYTHONHASHSEED"] = str(seed % 2**32)
        if namespaces and toolchain:
            environment["LD_LIBRARY_PATH"] = image.LIBRARIES  # the interpreter's own may be hidden by the compiler's
        readable = [] if namespaces else place.readable_paths(kind, toolchain)
        if not namespaces and not place.root:
            environment |= {
                "HOME": place.work_directory,
                "TMPDIR": place.work_directory,
                "LD_LIBRARY_PATH": place.image_copy.libraries,
            }
        inherited = [theirs.fileno()] + (cgroup.counter_fds if cgroup is not None else [])
        proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
        if place.root:
            inherited.append(proc)
        configuration = {
            "level": place.level,
            "work": place.work_directory,
            "packages": PACKAGES if namespaces or place.root else place.image_copy.packages,
            "readable": readable,
            "owner": place.owner_uid,
            "abi": place.landlock_abi,
            "loaded": kind.preloaded_modules,
            "referee": kind.is_referee,
            "cgroup": cgroup is not None,
            "proc": _STREAMS + len(inherited) - 1 if place.root else -1,
            "parent": os.getpid(),
        }
        gate, opener = os.pipe()
        self.pid = linux.clone(_NAMESPACES) if namespaces else linux.fork()
        if self.pid == 0:
            os.close(opener)
            self._become(kind, toolchain, environment, inherited, gate)
        os.close(proc)
        theirs.close()
        os.close(gate)
        try:
            if namespaces:
                self.user, self.shares_uid = _map_ids(self.pid, turn)
            if cgroup is not None:
                cgroup.add(self.pid)
            self.channel.send(json.dumps(configuration).encode())
            os.write(opener, b"go")
        except BaseException:
            self.close()
            raise
        finally:
            os.close(opener)

    def _become(
        self,
        kind: ZygoteKind,
        toolchain: list[str],
        environment: dict[str, str],
        inherited: list[int],
        gate: int,
    ) -> NoReturn:
        """Exec a fresh interpreter that inherits only the descriptors `inherited`, numbered from 3 on. Its command
        line, which programs may read, reveals nothing about this machine.
        """
        stderr = self.stderr
        try:
            if os.read(gate, 2) != b"go":
                raise EOFError("the warden gave up")
            if self._place.level == NAMESPACES:
                linux.unshare(linux.CLONE_NEWCGROUP)  # after the cgroup is joined: hides its path
            # The streams are files, as in the runs, which inherit the interpreter's stream objects.
            streams = [os.memfd_create("std"), os.memfd_create("std"), self.stderr]
            hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
            stack = _STACK if hard == resource.RLIM_INFINITY else min(_STACK, hard)
            resource.setrlimit(resource.RLIMIT_STACK, (stack, hard))
            interpreter, code = image.INTERPRETER, image.CODE
            if self._place.level == NAMESPACES:
                rootfs.enter(packages=bool(kind.preloaded_modules), toolchain=toolchain)
                linux.make_capabilities_ambient()
            elif self._place.root:
                os.chroot(self._place.root)
                os.chdir("/")
            else:
                interpreter, code = self._place.image_copy.root + interpreter, self._place.image_copy.root + code
            if self._place.level != NAMESPACES and os.geteuid() == 0:
                _keep_capabilities(() if self._place.owner_uid is None else _OF_ZYGOTES)
            for number, descriptor in enumerate(streams + inherited):
                os.dup2(descriptor, _ASIDE + number, inheritable=False)
            for number in range(len(streams + inherited)):
                os.dup2(_ASIDE + number, number)
            stderr = streams.index(self.stderr)
            linux.close_range(len(streams + inherited))
            start = f"import sys; sys.path.insert(0, {code!r}); from sandbox.jail.zygote import main; main()"
            os.execve(interpreter, [interpreter, "-S", "-s", "-P", "-B", "-X", "utf8", "-c", start], environment)
        except BaseException as error:
            os.write(stderr, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(127)

    def detach_descriptors(self) -> list[int]:
        """Return the descriptors of `channel` and `stderr`, which the caller must close."""
        stderr, self.stderr = self.stderr, -1
        return [self.channel.detach(), stderr]

    def close(self) -> None:
        """Kill the zygote, and with it all runs in its namespaces."""
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self.channel.close()
        if self.stderr >= 0:
            os.close(self.stderr)


def _keep_capabilities(kept: Collection[int]) -> None:
    """Drop all other capabilities from the bounding set, for an interpreter executed by root. Raises OSError."""
    with contextlib.suppress(PermissionError):
        os.setgroups([])
    for capability in set(linux.capabilities()).difference(kept):
        with contextlib.suppress(PermissionError):  # CAP_SETPCAP is missing
            linux.prctl(linux.PR_CAPBSET_DROP, capability)


def judge_uid() -> int:
    """Return a host uid for the judge of this warden. No file or process of the machine belongs to it."""
    uid = _FIRST_UID + _UIDS * os.getpid()
    return uid if _is_mapped(uid) else _FIRST_MAPPED_UID + _UIDS * (os.getpid() % _WORKERS)


def _is_mapped(uid: int) -> bool:
    """Return whether this uid is mapped in the current user namespace."""
    ranges = (map(int, line.split()) for line in Path("/proc/self/uid_map").read_text().splitlines())
    return any(first <= uid < first + length for first, _, length in ranges)


def program_uid(zygote_number: int) -> int | None:
    """Return a host uid for the programs of one zygote of this warden; None if it is not mapped."""
    uid = judge_uid() + 3 + 2 * (zygote_number % (_UIDS // 2 - 1))
    return uid if _is_mapped(uid) else None


def _user_without_namespaces(owner: int | None) -> str:
    return f"programs have {'your uid' if owner is None else 'a uid of their own'} and no capabilities"


def warden_uid() -> int:
    """Return a host uid for this warden."""
    return judge_uid() + 1


def _map_ids(pid: int, turn: int) -> tuple[str, bool]:
    """Map two dedicated host ids into the user namespace of `pid` or, for an ordinary user, that user's id. Inside, 0
    is the zygote and 1000 the programs. Returns a description of this layer, and whether programs share the caller's
    id. Raises OSError.
    """
    first = judge_uid() + 2 + 2 * (turn % (_UIDS // 2 - 1))
    two_ids = f"0 {first} 1\n1000 {first + 1} 1\n"
    try:
        Path(f"/proc/{pid}/gid_map").write_text(two_ids)
        Path(f"/proc/{pid}/uid_map").write_text(two_ids)
        return "user namespace; programs have a uid of their own and no capabilities", False
    except OSError:
        Path(f"/proc/{pid}/setgroups").write_text("deny")
        Path(f"/proc/{pid}/gid_map").write_text(f"1000 {os.getegid()} 1\n")
        Path(f"/proc/{pid}/uid_map").write_text(f"1000 {os.geteuid()} 1\n")
        return "user namespace; programs have your uid, which sees nothing outside, and no capabilities", True
