"""The warden: the privileged process of a worker.

It starts and kills zygotes, owns their cgroups, and stores shared compilations. It interprets no data of programs:
requests of the judge (judging/worker.py) consist of a few fields, and of descriptors whose content it does not parse.
If the caller is root, both processes run as ordinary users. The warden retains a few capabilities, effective only while
it handles a request.
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
from sandbox.jail import image, process_tree, spawn
from sandbox.jail.compile_cache import SharedFolderStore, make_memfd
from sandbox.jail.confinement import ConfinementManager
from sandbox.jail.spawn import ZygoteConfinement, ZygoteKind
from sandbox.jail.worker_config import NAMESPACES, WorkerConfig
from sandbox.jail.zygote_client import ZygoteClient
from sandbox.kernel import cgroups, linux
from sandbox.kernel.cgroups import Cgroup, CgroupJoinError
from sandbox.kernel.delegation import CgroupSubtree

_ARTIFACT_NAME = re.compile(r"[0-9a-f]{64}")
_MAX_MESSAGE_BYTES = 1 << 16
# Capabilities to create user namespaces, map ids into them, kill processes with other uids, and use the caller's
# cgroups and shared folders.
_CAPABILITIES = (
    linux.CAP_SYS_ADMIN,
    linux.CAP_SETUID,
    linux.CAP_SETGID,
    linux.CAP_KILL,
    linux.CAP_DAC_OVERRIDE,
    linux.CAP_FOWNER,  # to remove files of a killed caller from a world-writable folder
)


class WardenExited(EOFError):
    """The warden has exited. The judge then also exits, and its caller starts a new worker."""


class WardenClient:
    """The judge's connection to its warden. Thread-safe. Raises WardenExited if it has exited."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lock = threading.Lock()

    def fileno(self) -> int:
        """Return the descriptor of the connection; poll reports POLLHUP for it when the warden exits."""
        return self._channel.fileno()

    def start_zygote(self, kind: ZygoteKind, runner_number: int) -> ZygoteClient:
        """Start a zygote and wait until it is ready.

        Raises BackendUnavailable if the warden cannot create it, CgroupJoinError if it cannot join the cgroup, and
        ZygoteLost if it exits during its start.
        """
        response, descriptors = self._call_warden({"start": asdict(kind), "runner": runner_number})
        match response:
            case {"cannot_join": reason}:
                raise CgroupJoinError(reason)
            case {"unavailable": reason}:
                raise BackendUnavailable(reason)
        zygote = ZygoteClient(
            socket.socket(fileno=descriptors[0]), descriptors[1], lambda: self._kill_zygote(response["number"])
        )
        try:
            zygote.wait_until_ready(response["user"], shares_uid=response["shares_uid"])
        except BaseException:
            zygote.close()
            raise
        return zygote

    def _kill_zygote(self, zygote_number: int) -> None:
        with contextlib.suppress(WardenExited):
            self._call_warden({"end": zygote_number})

    def replace_cgroup(self, runner_number: int) -> Cgroup:
        """Replace the cgroup of a runner without zygotes, and return the new one. Raises OSError."""
        response, descriptors = self._call_warden({"renew": runner_number})
        if "refused" in response:
            raise OSError(response["refused"])
        return Cgroup(response["version"], dict(zip(response["files"], descriptors, strict=True)))

    def load_artifact(self, name: str) -> bytes | None:
        """Return the artifact of a shared compilation; None if absent."""
        _, descriptors = self._call_warden({"fetch": name})
        for descriptor in descriptors:
            with open(descriptor, "rb") as file:
                return file.read()
        return None

    def store_artifact(self, name: str, content: bytes) -> None:
        """Share the artifact of a compilation unless the disk is full."""
        descriptor = make_memfd(content)
        try:
            self._call_warden({"store": name}, [descriptor])
        finally:
            os.close(descriptor)

    def _call_warden(
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
    """Receive a message and its descriptors; None if the peer has exited."""
    data, descriptors, _, _ = socket.recv_fds(channel, _MAX_MESSAGE_BYTES, 16)
    return (json.loads(data), descriptors) if data else None


def run_warden(
    judge: int,
    channel: socket.socket,
    subtree: CgroupSubtree | None,
    groups: list[Cgroup | None],
    configuration: WorkerConfig,
) -> int:
    """Make or enter the image, then serve the judge until it exits; return the judge's exit status.

    judge     pid of the judge, a child of this process or, in a container, its parent
    subtree   the parent of new cgroups; None without cgroups
    groups    the cgroup of each runner; None for none
    """
    with contextlib.suppress(ValueError):  # the hard limit may be lower
        resource.setrlimit(resource.RLIMIT_CORE, (1, 1))  # a limit of 0 would not disable a piped core handler
    judge_pidfd = os.pidfd_open(judge)
    server = _WardenServer(judge, subtree, groups, configuration)
    poll = select.poll()
    poll.register(judge_pidfd, select.POLLIN)
    poll.register(channel, select.POLLIN)
    try:
        while all(descriptor != judge_pidfd for descriptor, _ in poll.poll()):
            received = _receive(channel)
            if received is None:
                break
            with server.hold_privileges():
                response, response_fds = server.handle(*received)
            with contextlib.suppress(OSError):  # the judge may have exited; the next poll reports it
                _send(channel, response, response_fds)
            for descriptor in (*received[1], *response_fds):
                os.close(descriptor)
    finally:
        server.regain_privileges()  # to kill the judge and to clean up
        with contextlib.suppress(ProcessLookupError):
            os.kill(judge, signal.SIGKILL)  # it may still execute a request of an exited caller
        server.close()
    return os.waitstatus_to_exitcode(os.waitpid(judge, 0)[1]) if os.getppid() != judge else 0


class _WardenServer:
    def __init__(
        self, judge: int, subtree: CgroupSubtree | None, groups: list[Cgroup | None], configuration: WorkerConfig
    ) -> None:
        self._judge = judge
        self._subtree = subtree
        self._cgroups = groups
        self._level = configuration.level
        self._seed = configuration.seed
        self._zygotes: dict[int, spawn.ZygoteProcess] = {}
        self._zygote_number = self._n_replacements = 0
        self._privileges = 0  # mask of capabilities that are effective only during a request
        self._has_shared_folder = bool(configuration.shared)
        folder = os.open(configuration.shared or "/", os.O_RDONLY | os.O_DIRECTORY)  # the image may hide it later
        self._shared = SharedFolderStore(f"/proc/self/fd/{folder}")
        self._confinements: ConfinementManager | None = None  # None with namespaces
        self._image_failure = ""
        try:
            if configuration.level != NAMESPACES:
                self._confinements = ConfinementManager(configuration)
            elif configuration.image_fds:
                image.enter_namespaces(configuration.image_fds)
            else:
                image.make_image(configuration.packages)
        except OSError as error:
            self._image_failure = str(error)
        if self._image_failure or self._confinements is not None:
            return
        if os.geteuid() == 0:
            with contextlib.suppress(OSError):  # a user namespace may have no other user
                self._drop_privileges()

    def _drop_privileges(self) -> None:
        """Become an ordinary user with a few permitted capabilities and no effective ones. Raises OSError."""
        uid = spawn.compute_warden_uid()
        linux.prctl(linux.PR_SET_KEEPCAPS, 1)
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        linux.prctl(linux.PR_SET_DUMPABLE, 1)  # otherwise root would own the /proc entries of cloned zygotes
        self._privileges = sum(1 << capability for capability in _CAPABILITIES)
        linux.set_capabilities(self._privileges, effective=0)

    def regain_privileges(self) -> None:
        if self._privileges:
            linux.set_capabilities(self._privileges)

    @contextlib.contextmanager
    def hold_privileges(self) -> Iterator[None]:
        """Make the warden's capabilities effective within the block."""
        self.regain_privileges()
        yield
        if self._privileges:
            linux.set_capabilities(self._privileges, effective=0)

    def handle(self, request: dict[str, Any], descriptors: list[int]) -> tuple[dict[str, Any], list[int]]:
        """Execute a request; return the response and its descriptors, for the caller to send and close."""
        match request:
            case {"start": dict(kind), "runner": int(runner_number)}:
                return self._start_zygote(ZygoteKind(**kind), runner_number)
            case {"end": int(zygote_number)} if zygote_number in self._zygotes:
                self._zygotes.pop(zygote_number).close()
                if self._confinements is not None:
                    self._kill_orphans()
                    self._confinements.remove(zygote_number)
            case {"renew": int(runner_number)}:
                return self._replace_cgroup(runner_number)
            case {"fetch": str(name)} if self._is_valid_artifact_name(name):
                content = self._shared.load_artifact(name)
                return {}, [] if content is None else [make_memfd(content)]
            case {"store": str(name)} if self._is_valid_artifact_name(name) and descriptors:
                self._shared.store_artifact(name, os.pread(descriptors[0], os.fstat(descriptors[0]).st_size, 0))
        return {}, []

    def _is_valid_artifact_name(self, name: str) -> bool:
        return self._has_shared_folder and _ARTIFACT_NAME.fullmatch(name) is not None

    def _start_zygote(self, kind: ZygoteKind, runner_number: int) -> tuple[dict[str, Any], list[int]]:
        self._zygote_number += 1
        cgroup = self._cgroups[runner_number]
        if self._image_failure:
            return {"unavailable": self._image_failure}, []
        try:
            confinement = (
                self._confinements.make(kind, self._zygote_number)
                if self._confinements is not None
                else ZygoteConfinement(NAMESPACES)
            )
            zygote = spawn.ZygoteProcess(
                kind, confinement, seed=self._seed, cgroup=cgroup, zygote_number=self._zygote_number
            )
        except CgroupJoinError as error:
            assert cgroup is not None
            cgroup.remove()
            self._cgroups[runner_number] = None
            return {"cannot_join": str(error)}, []
        except (OSError, LookupError) as error:
            return {"unavailable": str(error)}, []
        self._zygotes[self._zygote_number] = zygote
        response = {"number": self._zygote_number, "user": zygote.user, "shares_uid": zygote.shares_uid}
        return response, zygote.detach_descriptors()

    def _replace_cgroup(self, runner_number: int) -> tuple[dict[str, Any], list[int]]:
        old_cgroup = self._cgroups[runner_number]
        self._n_replacements += 1
        assert self._subtree is not None
        try:
            cgroup = cgroups.create_cgroup(self._subtree, f"{runner_number + 1}.{self._n_replacements}")
        except OSError as error:
            return {"refused": str(error)}, []
        self._cgroups[runner_number] = cgroup
        if old_cgroup is not None:
            old_cgroup.remove()
        return {"version": cgroup.version, "files": list(cgroup.files)}, list(map(os.dup, cgroup.files.values()))

    def _kill_orphans(self) -> None:
        """Kill the runs of exited zygotes, which without a pid namespace become children of this subreaper.

        They cannot fork, since their seccomp notifications get no response.
        """
        process_tree.kill_children({self._judge, *(zygote.pid for zygote in self._zygotes.values())})

    def close(self) -> None:
        while self._zygotes:
            self._zygotes.popitem()[1].close()
        if self._confinements is not None:
            self._kill_orphans()
            self._confinements.close()
        for cgroup in self._cgroups:
            if cgroup is not None:
                cgroup.remove()
