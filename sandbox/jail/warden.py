"""The warden: the half of a worker that has its caller's privileges.

A worker is two processes. The judge (worker.py) holds the suite, and reads and compares the outputs of programs; if its
caller is root, it runs as a separate ordinary user. So does the warden, except for a few capabilities, effective only
while it handles a request. The warden starts and ends zygotes, owns their cgroups, and stores shared compilations. It
interprets no data of programs: requests are a few fields, and descriptors whose content it does not read.
"""

import array
import contextlib
import json
import os
import re
import resource
import select
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from sandbox.errors import BackendUnavailable
from sandbox.jail import cgroups, image, linux, process_tree, spawn
from sandbox.jail.cgroups import Cgroup, CgroupJoinError
from sandbox.jail.compile_cache import SharedFolderStore, make_memfd
from sandbox.jail.confinement import ConfinementManager
from sandbox.jail.delegation import CgroupSubtree
from sandbox.jail.spawn import ZygoteConfinement, ZygoteKind
from sandbox.jail.worker_config import NAMESPACES, WorkerConfig
from sandbox.jail.zygote_client import ZygoteClient

_NAME = re.compile(r"[0-9a-f]{64}")
_MESSAGE_BYTES = 1 << 16
# To make user namespaces where ordinary users may not, map ids into them, kill processes with other ids, and use the
# caller's cgroups and shared folders.
_NEEDED = (
    linux.CAP_SYS_ADMIN,
    linux.CAP_SETUID,
    linux.CAP_SETGID,
    linux.CAP_KILL,
    linux.CAP_DAC_OVERRIDE,
    linux.CAP_FOWNER,  # to remove files of a killed caller in a world-writable folder
)


class WardenExited(EOFError):
    """The warden has ended, so nothing can run any more: the judge exits, and its caller starts a new worker."""


class WardenClient:
    """The judge's connection to its warden, safe for any number of threads. Raises WardenExited if it has ended."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lock = threading.Lock()

    def fileno(self) -> int:
        """Return the descriptor of the connection, which hangs up when the warden ends."""
        return self._channel.fileno()

    def start(self, kind: ZygoteKind, runner: int) -> ZygoteClient:
        """Return a new zygote that is ready for runs. Raises BackendUnavailable if it cannot be made, CgroupJoinError
        if the cgroup refuses it, and ZygoteLost if it ends while it starts."""
        response, descriptors = self._request({"start": asdict(kind), "runner": runner})
        match response:
            case {"cannot_join": reason}:
                raise CgroupJoinError(reason)
            case {"unavailable": reason}:
                raise BackendUnavailable(reason)
        zygote = ZygoteClient(
            socket.socket(fileno=descriptors[0]), descriptors[1], lambda: self._end(response["number"])
        )
        try:
            zygote.wait_until_ready(response["user"], shares_uid=response["shares_uid"])
        except BaseException:
            zygote.close()
            raise
        return zygote

    def _end(self, number: int) -> None:
        with contextlib.suppress(WardenExited):
            self._request({"end": number})

    def replace_cgroup(self, runner: int) -> Cgroup:
        """Return a new cgroup for a runner whose zygotes have ended. Raises OSError if none can be made."""
        response, descriptors = self._request({"renew": runner})
        if "refused" in response:
            raise OSError(response["refused"])
        return Cgroup(response["version"], dict(zip(response["files"], descriptors, strict=True)))

    def fetch(self, name: str) -> bytes | None:
        """Return a shared compilation; None if there is none of that name."""
        _, descriptors = self._request({"fetch": name})
        for descriptor in descriptors:
            with open(descriptor, "rb") as file:
                return file.read()
        return None

    def store(self, name: str, content: bytes) -> None:
        """Share a compilation if there is room."""
        descriptor = make_memfd(content)
        try:
            self._request({"store": name}, [descriptor])
        finally:
            os.close(descriptor)

    def _request(
        self, request: dict[str, Any], descriptors: list[int] | None = None
    ) -> tuple[dict[str, Any], list[int]]:
        with self._lock:
            try:
                _send(self._channel, request, descriptors or [])
                response = _receive(self._channel)
            except OSError as error:
                raise WardenExited(str(error)) from error
        if response is None:
            raise WardenExited
        return response


def _send(channel: socket.socket, message: dict[str, Any], descriptors: list[int]) -> None:
    fds = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    channel.sendmsg([json.dumps(message).encode()], fds)


def _receive(channel: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Return the next message and its descriptors; None if the peer is gone."""
    data, descriptors, _, _ = socket.recv_fds(channel, _MESSAGE_BYTES, 16)
    return (json.loads(data), descriptors) if data else None


def run_warden(
    judge: int,
    channel: socket.socket,
    subtree: CgroupSubtree | None,
    groups: list[Cgroup | None],
    configuration: WorkerConfig,
) -> int:
    """Run the warden until the judge exits; return the judge's exit status. Enters the image, or builds it first. The
    judge is the child of this process or, in a container, its parent. subtree: the parent of new cgroups; None if there
    can be none; groups: a cgroup for each runner; None for none.
    """
    with contextlib.suppress(ValueError):  # the hard limit is lower
        resource.setrlimit(resource.RLIMIT_CORE, (1, 1))  # with 0, a core handler that is a pipe would be started
    gone = os.pidfd_open(judge)
    keeper = _WardenServer(judge, subtree, groups, configuration)
    poll = select.poll()
    poll.register(gone, select.POLLIN)
    poll.register(channel, select.POLLIN)
    try:
        while all(descriptor != gone for descriptor, _ in poll.poll()):
            received = _receive(channel)
            if received is None:
                break
            with keeper.privileges():
                response, given = keeper.handle(*received)
            with contextlib.suppress(OSError):  # the judge has exited, which the next poll reports
                _send(channel, response, given)
            for descriptor in (*received[1], *given):
                os.close(descriptor)
    finally:
        keeper.regain_privileges()  # permanently: only cleanup is left
        with contextlib.suppress(ProcessLookupError):
            os.kill(judge, signal.SIGKILL)  # it may still work for a caller that has exited
        keeper.close()
    return os.waitstatus_to_exitcode(os.waitpid(judge, 0)[1]) if os.getppid() != judge else 0


class _WardenServer:
    """The zygotes, cgroups and shared compilations of one judge."""

    def __init__(
        self, judge: int, subtree: CgroupSubtree | None, groups: list[Cgroup | None], configuration: WorkerConfig
    ) -> None:
        self._judge = judge
        self._subtree = subtree
        self._cgroups = groups
        self._level = configuration.level
        self._seed = configuration.seed
        self._zygotes: dict[int, spawn.ZygoteProcess] = {}
        self._turn = self._renewals = 0
        self._privileges = 0  # capabilities that are only effective while a request is answered
        self._shares_any = bool(configuration.shared)
        folder = os.open(configuration.shared or "/", os.O_RDONLY | os.O_DIRECTORY)  # before the image hides it
        self._shared = SharedFolderStore(f"/proc/self/fd/{folder}")
        self._places: ConfinementManager | None = None  # without namespaces
        self._no_image = ""  # why there is no image
        try:
            if configuration.level != NAMESPACES:
                self._places = ConfinementManager(configuration)
            elif configuration.image_fds:
                image.enter(configuration.image_fds)
            else:
                image.make(configuration.packages)
        except OSError as error:
            self._no_image = str(error)
        if self._no_image or self._places is not None:
            return
        if os.geteuid() == 0:
            with contextlib.suppress(OSError):  # in a user namespace with a single user
                self._drop_privileges()

    def _drop_privileges(self) -> None:
        """Become an ordinary user with a few capabilities, which are not effective for now. Raises OSError."""
        uid = spawn.warden_uid()
        linux.prctl(linux.PR_SET_KEEPCAPS, 1)
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        linux.prctl(linux.PR_SET_DUMPABLE, 1)  # otherwise the /proc entries of its clones would belong to root
        self._privileges = sum(1 << capability for capability in _NEEDED)
        linux.set_capabilities(self._privileges, effective=0)

    def regain_privileges(self) -> None:
        if self._privileges:
            linux.set_capabilities(self._privileges)

    @contextlib.contextmanager
    def privileges(self) -> Iterator[None]:
        """Make the warden's capabilities effective while this context is open."""
        self.regain_privileges()
        yield
        if self._privileges:
            linux.set_capabilities(self._privileges, effective=0)

    def handle(self, request: dict[str, Any], descriptors: list[int]) -> tuple[dict[str, Any], list[int]]:
        """Execute a request; return the response and its descriptors, to be closed once they are sent."""
        match request:
            case {"start": dict(kind), "runner": int(runner)}:
                return self._start(ZygoteKind(**kind), runner)
            case {"end": int(number)} if number in self._zygotes:
                self._zygotes.pop(number).close()
                if self._places is not None:
                    self._end_orphans()
                    self._places.remove(number)
            case {"renew": int(runner)}:
                return self._renew(runner)
            case {"fetch": str(name)} if self._shares(name):
                content = self._shared.fetch(name)
                return {}, [] if content is None else [make_memfd(content)]
            case {"store": str(name)} if self._shares(name) and descriptors:
                self._shared.store(name, os.pread(descriptors[0], os.fstat(descriptors[0]).st_size, 0))
        return {}, []

    def _shares(self, name: str) -> bool:
        return self._shares_any and _NAME.fullmatch(name) is not None

    def _start(self, kind: ZygoteKind, runner: int) -> tuple[dict[str, Any], list[int]]:
        self._turn += 1
        cgroup = self._cgroups[runner]
        if self._no_image:
            return {"unavailable": self._no_image}, []
        try:
            place = self._places.make(kind, self._turn) if self._places is not None else ZygoteConfinement(NAMESPACES)
            zygote = spawn.ZygoteProcess(kind, place, seed=self._seed, cgroup=cgroup, turn=self._turn)
        except CgroupJoinError as error:
            assert cgroup is not None
            cgroup.remove()
            self._cgroups[runner] = None
            return {"cannot_join": str(error)}, []
        except (OSError, LookupError) as error:
            return {"unavailable": str(error)}, []
        self._zygotes[self._turn] = zygote
        return {"number": self._turn, "user": zygote.user, "shares_uid": zygote.shares_uid}, zygote.detach_descriptors()

    def _renew(self, runner: int) -> tuple[dict[str, Any], list[int]]:
        former = self._cgroups[runner]
        self._renewals += 1
        assert self._subtree is not None
        try:
            cgroup = self._cgroups[runner] = cgroups.create(self._subtree, f"{runner + 1}.{self._renewals}")
        except OSError as error:
            return {"refused": str(error)}, []
        if former is not None:
            former.remove()
        return {"version": cgroup.version, "files": list(cgroup.files)}, list(map(os.dup, cgroup.files.values()))

    def _end_orphans(self) -> None:
        """Kill the orphans of an ended zygote. Without a pid namespace they become children of this
        subreaper. They cannot fork, since their notifications (seccomp_notify.py) get no response."""
        process_tree.kill_children({self._judge, *(zygote.pid for zygote in self._zygotes.values())})

    def close(self) -> None:
        while self._zygotes:
            self._zygotes.popitem()[1].close()
        if self._places is not None:
            self._end_orphans()
            self._places.close()
        for cgroup in self._cgroups:
            if cgroup is not None:
                cgroup.remove()
