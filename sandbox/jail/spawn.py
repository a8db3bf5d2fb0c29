"""Start and SIGKILL of zygotes by the warden, in new namespaces or in a ZygoteConfinement."""

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
from sandbox.jail import image
from sandbox.jail.child import PACKAGES, RUN_ROOT
from sandbox.jail.worker_config import NAMESPACES
from sandbox.kernel import linux
from sandbox.kernel.cgroups import Cgroup

_NAMESPACES = (
    linux.CLONE_NEWUSER
    | linux.CLONE_NEWPID
    | linux.CLONE_NEWNS
    | linux.CLONE_NEWNET
    | linux.CLONE_NEWIPC
    | linux.CLONE_NEWUTS
)
_FIRST_UID = 1 << 30  # first host uid of workers and programs; far from the uids of users and containers
_UIDS_PER_WORKER = 64
_STACK_BYTES = 1 << 30  # stack limit at exec, which reserves this address space for the main stack
_FIRST_CONTAINER_UID = 20_000  # first uid if _FIRST_UID is not mapped, as in a container with a user namespace
_MAX_CONTAINER_WORKERS = 600  # maximum number of workers with separate uids from _FIRST_CONTAINER_UID
# Capabilities to change to the uid of programs, kill them, and open their directory.
_ZYGOTE_CAPABILITIES = (linux.CAP_SETUID, linux.CAP_SETGID, linux.CAP_KILL, linux.CAP_DAC_OVERRIDE)
_STREAMS = 3
_FIRST_SPARE_FD = 200  # greater than all open descriptors of a warden
_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "PYTHONIOENCODING": "utf-8:strict",
    "OPENBLAS_NUM_THREADS": "1",  # a fork would lack the library's other threads
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


@dataclass(frozen=True, slots=True)
class ZygoteKind:
    """The purpose of a zygote.

    compiler_language  the language whose compiler its children run; "" if they run programs
    preloaded_modules  modules from outside the standard library to preload; empty for no packages
    is_referee         whether it runs only referees
    """

    compiler_language: str = ""
    preloaded_modules: tuple[str, ...] = ()
    is_referee: bool = False


@dataclass(frozen=True, slots=True)
class ZygoteConfinement:
    """The isolation level, directories and user of a zygote's runs.

    level           see WorkerConfig
    work_directory  without namespaces, the working directory of runs, as a path in the zygote's root
    image_copy      without namespaces, the folders of the image
    root            the zygote's root directory; "" for the machine's root
    owner_uid       without namespaces, uid and gid of programs; None for the caller's
    landlock_abi    the Landlock version that confines runs; 0 for none
    """

    level: str
    work_directory: str = ""
    image_copy: image.ImageCopy = image.ImageCopy("")
    root: str = ""
    owner_uid: int | None = None
    landlock_abi: int = 0

    def list_readable_paths(self, kind: ZygoteKind, toolchain: list[str]) -> list[str]:
        """Return all files and folders that runs may read and execute, as paths in the zygote's root."""
        if self.root:
            return [path.removeprefix(self.root) for path in image.list_readable_paths(self.root)]
        packages = [self.image_copy.packages] if kind.preloaded_modules else []
        return [*image.list_readable_paths(self.image_copy.root), *packages, *image.list_loader_paths(), *toolchain]


class ZygoteProcess:
    """A running zygote. `channel` is the connection to it; the first message reports readiness or failure.

    seed           seed of programs' hashes; None for random hashes
    cgroup         cgroup to join; None for none
    zygote_number  unique among the zygotes of one worker

    Raises OSError, and CgroupJoinError if the zygote cannot join the cgroup.
    """

    def __init__(
        self,
        kind: ZygoteKind,
        confinement: ZygoteConfinement,
        *,
        seed: int | None,
        cgroup: Cgroup | None,
        zygote_number: int,
    ) -> None:
        self._confinement = confinement
        namespaces = confinement.level == NAMESPACES
        self.channel, peer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.stderr = os.memfd_create("zygote")
        self.shares_uid = confinement.owner_uid is None
        self.user = f"programs have {'your uid' if self.shares_uid else 'a uid of their own'} and no capabilities"
        toolchain = languages.load(kind.compiler_language).toolchain() if kind.compiler_language else []
        environment = dict(_ENVIRONMENT)
        if seed is not None:
            environment["PYTHONHASHSEED"] = str(seed % 2**32)
        if namespaces and toolchain:
            # Mounts for a compiler may hide the interpreter's libraries.
            environment["LD_LIBRARY_PATH"] = image.LIBRARIES
        readable = [] if namespaces else confinement.list_readable_paths(kind, toolchain)
        if not namespaces and not confinement.root:
            environment |= {
                "HOME": confinement.work_directory,
                "TMPDIR": confinement.work_directory,
                "LD_LIBRARY_PATH": confinement.image_copy.libraries,
            }
        inherited = [peer.fileno()] + (cgroup.counter_fds if cgroup is not None else [])
        proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
        if confinement.root:
            inherited.append(proc)
        configuration = {
            "level": confinement.level,
            "work": confinement.work_directory,
            "packages": PACKAGES if namespaces or confinement.root else confinement.image_copy.packages,
            "readable": readable,
            "owner": confinement.owner_uid,
            "abi": confinement.landlock_abi,
            "loaded": kind.preloaded_modules,
            "referee": kind.is_referee,
            "cgroup": cgroup is not None,
            "proc": _STREAMS + len(inherited) - 1 if confinement.root else -1,
            "parent": os.getpid(),
        }
        gate, opener = os.pipe()
        self.pid = linux.clone(_NAMESPACES) if namespaces else linux.fork()
        if self.pid == 0:
            os.close(opener)
            self._exec_interpreter(kind, toolchain, environment, inherited, gate)
        os.close(proc)
        peer.close()
        os.close(gate)
        try:
            if namespaces:
                self.user, self.shares_uid = _map_ids(self.pid, zygote_number)
            if cgroup is not None:
                cgroup.add_process(self.pid)
            self.channel.send(json.dumps(configuration).encode())
            os.write(opener, b"go")
        except BaseException:
            self.close()
            raise
        finally:
            os.close(opener)

    def _exec_interpreter(
        self, kind: ZygoteKind, toolchain: list[str], environment: dict[str, str], inherited: list[int], gate: int
    ) -> NoReturn:
        """Exec a fresh interpreter whose only descriptors are the streams and, from 3 on, `inherited`.

        Programs can read its command line, which reveals nothing about this machine.
        """
        stderr = self.stderr
        try:
            if os.read(gate, 2) != b"go":
                raise EOFError("the warden aborted the start")
            if self._confinement.level == NAMESPACES:
                linux.unshare(linux.CLONE_NEWCGROUP)  # hides the path of the cgroup, which the process has joined
            # Runs inherit the interpreter's stream objects, so its streams must be files like theirs.
            streams = [os.memfd_create("std"), os.memfd_create("std"), self.stderr]
            hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
            stack = _STACK_BYTES if hard == resource.RLIM_INFINITY else min(_STACK_BYTES, hard)
            resource.setrlimit(resource.RLIMIT_STACK, (stack, hard))
            interpreter, code = image.INTERPRETER, image.CODE
            if self._confinement.level == NAMESPACES:
                _enter_image(has_packages=bool(kind.preloaded_modules), toolchain=toolchain)
                linux.make_capabilities_ambient()
            elif self._confinement.root:
                os.chroot(self._confinement.root)
                os.chdir("/")
            else:
                root = self._confinement.image_copy.root
                interpreter, code = root + interpreter, root + code
            if self._confinement.level != NAMESPACES and os.geteuid() == 0:
                _keep_capabilities(() if self._confinement.owner_uid is None else _ZYGOTE_CAPABILITIES)
            for number, descriptor in enumerate(streams + inherited):
                os.dup2(descriptor, _FIRST_SPARE_FD + number, inheritable=False)
            for number in range(len(streams + inherited)):
                os.dup2(_FIRST_SPARE_FD + number, number)
            stderr = streams.index(self.stderr)
            linux.close_range(len(streams + inherited))
            start = f"import sys; sys.path.insert(0, {code!r}); from sandbox.jail.zygote import main; main()"
            os.execve(interpreter, [interpreter, "-S", "-s", "-P", "-B", "-X", "utf8", "-c", start], environment)
        except BaseException as error:
            os.write(stderr, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(127)

    def detach_descriptors(self) -> list[int]:
        """Return the descriptors of `channel` and `stderr`, for the caller to close."""
        stderr, self.stderr = self.stderr, -1
        return [self.channel.detach(), stderr]

    def close(self) -> None:
        """Kill the zygote; if it has a pid namespace, this also kills its runs."""
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self.channel.close()
        if self.stderr >= 0:
            os.close(self.stderr)


def _keep_capabilities(retained: Collection[int]) -> None:
    """Drop all other capabilities from the bounding set, so that root loses them at execve. Raises OSError."""
    with contextlib.suppress(PermissionError):
        os.setgroups([])
    for capability in set(linux.list_capabilities()).difference(retained):
        with contextlib.suppress(PermissionError):  # the process may lack CAP_SETPCAP
            linux.prctl(linux.PR_CAPBSET_DROP, capability)


def compute_judge_uid() -> int:
    """Return the host uid for the judge of this warden, which no other user of the machine has."""
    uid = _FIRST_UID + _UIDS_PER_WORKER * os.getpid()
    return uid if _is_mapped(uid) else _FIRST_CONTAINER_UID + _UIDS_PER_WORKER * (os.getpid() % _MAX_CONTAINER_WORKERS)


def _is_mapped(uid: int) -> bool:
    ranges = (map(int, line.split()) for line in Path("/proc/self/uid_map").read_text().splitlines())
    return any(first <= uid < first + length for first, _, length in ranges)


def compute_program_uid(zygote_number: int) -> int | None:
    """Return the host uid for the programs of one zygote of this warden; None if it is not mapped."""
    uid = compute_judge_uid() + 3 + 2 * (zygote_number % (_UIDS_PER_WORKER // 2 - 1))
    return uid if _is_mapped(uid) else None


def compute_warden_uid() -> int:
    """Return the host uid for this warden."""
    return compute_judge_uid() + 1


def _map_ids(pid: int, zygote_number: int) -> tuple[str, bool]:
    """Map uids and gids into the user namespace of `pid`: two dedicated host ids to 0 (zygote) and 1000 (programs) or,
    without privileges, the caller's id to 1000 for both.

    Returns a description of this isolation layer, and whether programs have the caller's ids. Raises OSError.
    """
    first = compute_judge_uid() + 2 + 2 * (zygote_number % (_UIDS_PER_WORKER // 2 - 1))
    two_ids = f"0 {first} 1\n1000 {first + 1} 1\n"
    try:
        Path(f"/proc/{pid}/gid_map").write_text(two_ids)
        Path(f"/proc/{pid}/uid_map").write_text(two_ids)
        return "user namespace; programs have a uid of their own and no capabilities", False
    except OSError:
        Path(f"/proc/{pid}/setgroups").write_text("deny")
        Path(f"/proc/{pid}/gid_map").write_text(f"1000 {os.getegid()} 1\n")
        Path(f"/proc/{pid}/uid_map").write_text(f"1000 {os.geteuid()} 1\n")
        return "user namespace; programs have your uid, confined to their namespaces, and no capabilities", True


def _enter_image(*, has_packages: bool, toolchain: list[str]) -> None:
    """Make the image the root directory, and become uid 0 of the user namespace if 0 is mapped. Raises OSError.

    has_packages   whether to include the packages from outside the standard library
    toolchain      paths of the machine to bind-mount at the same location

    The calling process must be a clone, in new user, mount and pid namespaces, of one in the image's namespaces.
    """
    root = image.COMPILE_DIRECTORY if toolchain else image.ROOT
    # After the change of uid, the process may lack access to the machine's directories.
    path_fds = {path: os.open(path, os.O_PATH) for path in toolchain}
    linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
    _become_namespace_root()
    linux.mount(root, root, None, linux.MS_BIND | linux.MS_REC)  # pivot_root rejects an inherited mount
    if has_packages:
        linux.mount(image.PACKAGES, root + PACKAGES, None, linux.MS_BIND)
    for path, descriptor in path_fds.items():
        linux.mount(f"/proc/self/fd/{descriptor}", root + path, None, linux.MS_BIND | linux.MS_REC)
        linux.make_readonly(root + path, nodev=True)
        os.close(descriptor)
    flags = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
    linux.mount("proc", f"{root}{RUN_ROOT}/proc", "proc", flags, "subset=pid")
    linux.pivot_root(root)


def _become_namespace_root() -> None:
    """Change to uid and gid 0 of the user namespace if they are mapped. Keeps the capabilities."""
    with open("/proc/self/uid_map") as file:
        if any(line.split()[0] == "0" for line in file):
            os.setresgid(0, 0, 0)
            os.setresuid(0, 0, 0)
