"""A judge that is a Python function, in its own process, so that a crash or a hang affects only one probe."""

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from curate.probe.forms import UnusableTarget
from curate.probe.target import Score, TargetDescription
from sandbox.probes.probe import Convention
from sandbox.suite import Suite

_MIN_DESCRIPTOR = 700  # hostile programs scan lower descriptors
_LOAD_SECONDS = 120.0
_MAX_RESPONSE_BYTES = 1 << 22
_ADVICE = "; import it in Python to see the error"
_WITHOUT_ASSERTIONS = ("plain", "rllm")  # signatures without a format for tests in Python


@dataclass(frozen=True, slots=True)
class PythonTarget:
    """A judge to load.

    name        "module:function"
    signature   a key of forms.FORMS; empty to detect it from the function's parameters
    argument    argument with which the function returns the judge; None if the function is the judge
    network     whether the judge keeps the host's network namespace
    bait        secret to expose as bait in the judge's namespaces (bait.py); empty for none
    """

    name: str
    signature: str = ""
    argument: str | None = None
    network: bool = False
    bait: str = ""


class _Message(msgspec.Struct, frozen=True):
    """A packet from the worker process. token: token of the request; empty in the first packet"""

    token: str


class _Hello(_Message, frozen=True):
    """The first packet: a description of the judge, or the reason why it is unusable."""

    signature: str = ""
    forms: tuple[str, ...] = ()
    protections: dict[str, str] = {}
    scratch: str = ""
    unusable: str = ""


class _Response(_Message, frozen=True):
    """The response to a request; see Score."""

    score: float | None
    fault: str
    detail: str
    seconds: float


Message = TypeVar("Message", bound=_Message)


class PythonJudge:
    """The parent of a judge's process, which restarts it after a crash. call_seconds: time limit for one completion"""

    def __init__(self, target: PythonTarget, *, call_seconds: float) -> None:
        self._target, self._call_seconds = target, call_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._scratch = ""

    def open(self) -> TargetDescription:
        """Start the process and load the judge. Raises UnusableTarget."""
        hello = self._start()
        conventions = tuple(
            convention
            for convention in Convention
            if convention is not Convention.ASSERTS or hello.signature not in _WITHOUT_ASSERTIONS
        )
        return TargetDescription(hello.signature, hello.forms, conventions, protections=hello.protections)

    def score(self, completion: str, suite: Suite, form: int, condition: str = "") -> Score:
        if self._channel is None:
            self._start()
        assert self._channel is not None
        token = secrets.token_hex(8)
        request = {
            "token": token, "completion": completion, "suite": suite.to_json(), "form": form, "condition": condition,
        }  # fmt: skip
        began = time.monotonic()
        try:
            self._channel.settimeout(self._call_seconds)
            self._channel.send(json.dumps(request).encode())
            response = self._receive(_Response, token, began + self._call_seconds)
        except (OSError, EOFError) as error:
            hung = isinstance(error, TimeoutError)
            self.close()
            detail = f"no response within {self._call_seconds:g} s" if hung else "its process ended"
            return Score(None, "hung" if hung else "crashed", detail, time.monotonic() - began)
        return Score(response.score, response.fault, response.detail, response.seconds)

    def restart(self) -> None:
        """Kill the process; the next completion starts another one."""
        self.close()

    def close(self) -> None:
        """Kill the process and its process group."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
            # Without a mount namespace, the folder is in the machine's /tmp.
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _start(self) -> _Hello:
        own_end, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        descriptor = fcntl.fcntl(child_end, fcntl.F_DUPFD, _MIN_DESCRIPTOR)
        child_end.close()
        working_folder = os.getcwd()
        spec = {
            "descriptor": descriptor, "name": self._target.name, "signature": self._target.signature,
            "argument": self._target.argument, "network": self._target.network,
            "bait": self._target.bait, "folder": working_folder,
            "visible_folders": _list_visible_folders(working_folder, self._target),
        }  # fmt: skip
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "curate.probe.worker", json.dumps(spec)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=[descriptor],
            start_new_session=True,
            env=_build_environment(),
        )  # fmt: skip
        os.close(descriptor)
        self._channel = own_end
        try:
            hello = self._receive(_Hello, "", time.monotonic() + _LOAD_SECONDS)
        except TimeoutError:
            self.close()
            raise UnusableTarget(f"{self._target.name} did not load within {_LOAD_SECONDS:g} s{_ADVICE}") from None
        except (OSError, EOFError):
            self.close()
            raise UnusableTarget(f"the process exited while loading {self._target.name}{_ADVICE}") from None
        if hello.unusable:
            self.close()
            named = f"{self._target.name}: " if self._target.argument is None else ""
            raise UnusableTarget(named + hello.unusable)
        self._scratch = hello.scratch
        return hello

    def _receive(self, kind: type[Message], token: str, deadline: float) -> Message:
        """Return the next packet with this token; drop all others, which hostile programs may send."""
        assert self._channel is not None
        while True:
            if (left := deadline - time.monotonic()) <= 0:
                raise TimeoutError
            self._channel.settimeout(left)
            packet = self._channel.recv(_MAX_RESPONSE_BYTES)
            if not packet:
                raise EOFError
            with contextlib.suppress(msgspec.MsgspecError, RecursionError):
                message = msgspec.json.decode(packet, type=kind)
                if message.token == token:
                    return message


def _build_environment() -> dict[str, str]:
    """Return the environment with curate's folder in PYTHONPATH, and without PYTHONSAFEPATH, which `curate` sets."""
    path = [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    return {**kept, "PYTHONPATH": os.pathsep.join(filter(None, path))}


def _list_visible_folders(working_folder: str, target: PythonTarget) -> list[str]:
    """Return the folders with importable modules and, if the target's argument is a file, its folder."""
    argument_folder = os.path.dirname(target.argument or "")
    paths = [working_folder, argument_folder, *sys.path, sys.prefix, str(Path(sys.prefix).resolve())]
    return sorted({os.path.abspath(path) for path in paths if path and os.path.isdir(path)})
