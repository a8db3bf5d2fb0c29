"""Start a zygote in its namespaces, talk to it, end it. The worker's side of zygote.py."""

import json
import os
import resource
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any, NoReturn

from sandbox.errors import BackendUnavailable
from sandbox.jail import linux
from sandbox.jail.cgroups import Cgroup

NAMESPACES = {
    "user": linux.CLONE_NEWUSER,
    "pid": linux.CLONE_NEWPID,
    "mount": linux.CLONE_NEWNS,
    "network": linux.CLONE_NEWNET,
    "ipc": linux.CLONE_NEWIPC,
    "uts": linux.CLONE_NEWUTS,
    "cgroup": linux.CLONE_NEWCGROUP,
}
_FIRST_UID = 1 << 30  # of the host uids that programs get; far from any that a user or container has
_STACK = 1 << 30  # bytes; must be set before exec, which lays out the address space around it
_START_SECONDS = 60
_OWN_IDS = "user namespace; programs have a uid of their own and no capabilities"
_ASIDE = 200  # above every descriptor that a worker has open
_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "PYTHONIOENCODING": "utf-8:strict",
    "OPENBLAS_NUM_THREADS": "1",  # its threads would not survive the fork, and a run has one processor
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


class ZygoteLost(Exception):
    """The zygote died or fell silent; whether the run would have been right is unknown."""


class Zygote:
    """A zygote that is ready for runs. Raises BackendUnavailable if it cannot be made."""

    def __init__(
        self,
        *,
        packages: dict[str, str],
        toolchain: list[str],
        namespaces: bool,
        full: bool,
        work: str,
        seed: int | None,
        cgroup: Cgroup | None,
    ) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._words = os.memfd_create("zygote")  # what the interpreter says on stderr should it fail
        configuration = {
            "packages": packages,
            "toolchain": toolchain,
            "namespaces": namespaces,
            "full": full,
            "work": work,
            "cgroup": cgroup is not None,
            "parent": os.getpid(),
        }
        hash_seed = {} if seed is None else {"PYTHONHASHSEED": str(seed % 2**32)}
        inherited = [theirs.fileno()] + ([cgroup.cpu_usage] if cgroup is not None else [])
        gate, opener = os.pipe()
        self._ends: dict[int, int] = {}
        self.layers: dict[str, str] = {}
        self.shares_uid = True  # what the worker makes, programs own
        self.pid = linux.clone(sum(NAMESPACES.values())) if namespaces else linux.fork()
        if self.pid == 0:
            os.close(opener)
            self._become(json.dumps(configuration), _ENVIRONMENT | hash_seed, inherited, gate, namespaces=namespaces)
        theirs.close()
        os.close(gate)
        try:
            if namespaces:
                self.layers["user"] = _map_ids(self.pid)
                self.shares_uid = self.layers["user"] != _OWN_IDS
            if cgroup is not None:
                cgroup.add(self.pid)
            os.write(opener, b"go")
            answer = self._receive(_START_SECONDS)
        except BaseException:
            self.close()
            raise
        finally:
            os.close(opener)
        if "unavailable" in answer:
            self.close()
            raise BackendUnavailable(answer["unavailable"])
        self.layers |= answer["layers"]

    def _become(
        self, configuration: str, environment: dict[str, str], inherited: list[int], gate: int, *, namespaces: bool
    ) -> NoReturn:
        """In the clone: become a fresh interpreter that has nothing of the worker's but `inherited`, from 3 on."""
        try:
            if os.read(gate, 2) != b"go":
                raise EOFError("the worker gave up")
            if namespaces:
                linux.keep_capabilities_over_exec()
            # Files, as in the runs: what the interpreter notes about its streams holds for theirs too.
            streams = [os.memfd_create("std"), os.memfd_create("std"), self._words]
            for number, descriptor in enumerate(streams + inherited):
                os.dup2(descriptor, _ASIDE + number, inheritable=False)
            for number in range(len(streams + inherited)):
                os.dup2(_ASIDE + number, number)
            linux.close_range(len(streams + inherited))
            hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
            stack = _STACK if hard == resource.RLIM_INFINITY else min(_STACK, hard)
            resource.setrlimit(resource.RLIMIT_STACK, (stack, hard))
            project = str(Path(__file__).parents[2])
            start = (
                f"import sys; sys.path.insert(0, {project!r}); from sandbox.jail.zygote import main;"
                f" main({configuration!r})"
            )
            interpreter = os.path.realpath(sys.executable)
            os.execve(interpreter, [interpreter, "-S", "-s", "-P", "-B", "-X", "utf8", "-c", start], environment)
        except BaseException as error:
            os.write(self._words, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(127)

    def begin(self, job: bytes, files: list[int]) -> None:
        """Have one job begun. Raises ZygoteLost."""
        try:
            socket.send_fds(self._channel, [job], files)
        except OSError as error:
            raise ZygoteLost(str(error)) from error

    def end(self, patience_seconds: float) -> dict[str, Any]:
        """How the job ended. Raises ZygoteLost."""
        return self._receive(patience_seconds)

    def watch(self, ends: dict[int, int]) -> None:
        """Give up, with SystemExit, when one of these events comes while waiting: descriptor -> poll mask."""
        self._ends = ends

    def _receive(self, patience_seconds: float) -> dict[str, Any]:
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        for descriptor, mask in self._ends.items():
            poll.register(descriptor, mask)
        events = poll.poll(patience_seconds * 1000)
        if any(descriptor in self._ends for descriptor, _ in events):
            raise SystemExit(0)
        try:
            data = self._channel.recv(1 << 16) if events else b""
        except OSError as error:
            raise ZygoteLost(str(error)) from error
        if not data:
            words = os.pread(self._words, 2000, 0).decode("utf-8", "replace").strip()
            raise ZygoteLost(words or ("it ended" if events else "it fell silent"))
        answer: dict[str, Any] = json.loads(data)
        return answer

    def close(self) -> None:
        """Kill it, and with it all runs in its namespaces."""
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        self._channel.close()
        os.close(self._words)


def _map_ids(pid: int) -> str:
    """Give the user namespace of `pid` two host ids of its own, or as an ordinary user the user's own one.

    Inside, 0 is the zygote and 1000 the programs. Returns what programs are, in words. Raises OSError.
    """
    first = _FIRST_UID + 2 * os.getpid()
    wide = f"0 {first} 1\n1000 {first + 1} 1\n"
    try:
        Path(f"/proc/{pid}/gid_map").write_text(wide)
        Path(f"/proc/{pid}/uid_map").write_text(wide)
        return _OWN_IDS
    except OSError:
        Path(f"/proc/{pid}/setgroups").write_text("deny")
        Path(f"/proc/{pid}/gid_map").write_text(f"1000 {os.getegid()} 1\n")
        Path(f"/proc/{pid}/uid_map").write_text(f"1000 {os.geteuid()} 1\n")
        return "user namespace; programs have your uid, which sees nothing outside, and no capabilities"
