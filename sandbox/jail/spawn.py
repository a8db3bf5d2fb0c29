"""Start a zygote in its namespaces, and end it: the warden's side of zygote.py."""

import contextlib
import json
import os
import resource
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from sandbox import languages
from sandbox.jail import image, linux, rootfs
from sandbox.jail.cgroups import Cgroup

_NAMESPACES = (
    linux.CLONE_NEWUSER
    | linux.CLONE_NEWPID
    | linux.CLONE_NEWNS
    | linux.CLONE_NEWNET
    | linux.CLONE_NEWIPC
    | linux.CLONE_NEWUTS
)
_FIRST_UID = 1 << 30  # the first of the host uids for judges and programs; far from those of users and containers
_UIDS = 64  # host uids for each worker
_STACK = 1 << 30  # bytes; must be set before exec, which lays out the address space around it
OWN_IDS = "user namespace; programs have a uid of their own and no capabilities"
_ASIDE = 200  # above every descriptor that a warden has open
_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "PYTHONIOENCODING": "utf-8:strict",
    "OPENBLAS_NUM_THREADS": "1",  # its threads would not survive the fork, and a run has one processor
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


@dataclass(frozen=True, slots=True)
class Kind:
    """What a zygote is for.

    compiles  the language whose compiler its children become; "" if they run programs
    loaded    the modules from outside the standard library that it loads; without any, it has no such packages at all
    referee   whether it is for referees; then it never runs submissions
    """

    compiles: str = ""
    loaded: tuple[str, ...] = ()
    referee: bool = False


class ZygoteProcess:
    """A zygote that has been started; `channel` leads to it, and its first message says what it has become.

    full    whether a zygote without a filter of system calls must fail
    work    the directory of its runs if there are no namespaces; "" if it has namespaces of its own, and the image
    seed    determines the hash seed of programs; None leaves it random
    cgroup  the cgroup that it joins; None for none
    turn    distinguishes the zygotes of one worker

    Raises OSError, and CannotJoin if the cgroup refuses it.
    """

    def __init__(
        self, kind: Kind, *, full: bool, work: str, seed: int | None, cgroup: Cgroup | None, turn: int
    ) -> None:
        namespaces = not work
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.stderr = os.memfd_create("zygote")  # what the interpreter prints there if it fails
        self.user = "none: no user namespace"
        toolchain = languages.load(kind.compiles).toolchain() if kind.compiles else []
        configuration = {
            "loaded": kind.loaded,
            "referee": kind.referee,
            "namespaces": namespaces,
            "full": full,
            "work": work,
            "cgroup": cgroup is not None,
            "parent": os.getpid(),
        }
        environment = dict(_ENVIRONMENT)
        if seed is not None:
            environment["PYTHONHASHSEED"] = str(seed % 2**32)
        if namespaces and toolchain:
            environment["LD_LIBRARY_PATH"] = image.LIBRARIES  # the interpreter's own may be hidden by the compiler's
        inherited = [theirs.fileno()] + (cgroup.counters if cgroup is not None else [])
        gate, opener = os.pipe()
        self.pid = linux.clone(_NAMESPACES) if namespaces else linux.fork()
        if self.pid == 0:
            os.close(opener)
            self._become(kind, toolchain, environment, inherited, gate, namespaces=namespaces)
        theirs.close()
        os.close(gate)
        try:
            if namespaces:
                self.user = _map_ids(self.pid, turn)
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
        kind: Kind,
        toolchain: list[str],
        environment: dict[str, str],
        inherited: list[int],
        gate: int,
        *,
        namespaces: bool,
    ) -> NoReturn:
        """Turn this clone into a fresh interpreter that inherits only the descriptors `inherited`, numbered from 3 on.

        Its command line, which programs may read, says nothing about this machine.
        """
        try:
            if os.read(gate, 2) != b"go":
                raise EOFError("the warden gave up")
            if namespaces:
                linux.unshare(linux.CLONE_NEWCGROUP)  # it is in its cgroup by now, whose name programs then do not see
            # The streams are files, as in the runs: what the interpreter learns about its own is true of theirs, too.
            streams = [os.memfd_create("std"), os.memfd_create("std"), self.stderr]
            hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
            stack = _STACK if hard == resource.RLIM_INFINITY else min(_STACK, hard)
            resource.setrlimit(resource.RLIMIT_STACK, (stack, hard))
            interpreter, code = os.path.realpath(sys.executable), str(Path(__file__).parents[2])
            if namespaces:
                rootfs.enter(packages=bool(kind.loaded), toolchain=toolchain)
                linux.keep_capabilities_over_exec()
                interpreter, code = image.INTERPRETER, image.CODE
            for number, descriptor in enumerate(streams + inherited):
                os.dup2(descriptor, _ASIDE + number, inheritable=False)
            for number in range(len(streams + inherited)):
                os.dup2(_ASIDE + number, number)
            linux.close_range(len(streams + inherited))
            start = f"import sys; sys.path.insert(0, {code!r}); from sandbox.jail.zygote import main; main()"
            os.execve(interpreter, [interpreter, "-S", "-s", "-P", "-B", "-X", "utf8", "-c", start], environment)
        except BaseException as error:
            os.write(self.stderr, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(127)

    def hand_over(self) -> list[int]:
        """Return the descriptors of `channel` and `stderr`, which the caller must close from now on."""
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


def judges_uid() -> int:
    """Return a host uid for the judge of this warden. Nothing on the machine belongs to that uid."""
    return _FIRST_UID + _UIDS * os.getpid()


def wardens_uid() -> int:
    """Return a host uid for this warden."""
    return judges_uid() + 1


def _map_ids(pid: int, turn: int) -> str:
    """Give the user namespace of `pid` two host ids of its own or, for an ordinary user, that user's id.

    Inside, 0 is the zygote and 1000 are the programs. Returns a description of this layer. Raises OSError.
    """
    first = judges_uid() + 2 + 2 * (turn % (_UIDS // 2 - 1))
    two_ids = f"0 {first} 1\n1000 {first + 1} 1\n"
    try:
        Path(f"/proc/{pid}/gid_map").write_text(two_ids)
        Path(f"/proc/{pid}/uid_map").write_text(two_ids)
        return OWN_IDS
    except OSError:
        Path(f"/proc/{pid}/setgroups").write_text("deny")
        Path(f"/proc/{pid}/gid_map").write_text(f"1000 {os.getegid()} 1\n")
        Path(f"/proc/{pid}/uid_map").write_text(f"1000 {os.geteuid()} 1\n")
        return "user namespace; programs have your uid, which sees nothing outside, and no capabilities"
