"""A judge written in Python, in its own process. A crash or a hang affects only one probe."""

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
_WITHOUT_STATEMENTS = ("plain", "rllm")  # signatures without a form for Python statements


@dataclass(frozen=True, slots=True)
class PythonTarget:
    """A judge to load.

    name        "module:function"
    signature   a key of forms.FORMS; empty: detected from the function's parameters
    argument    argument of the function, which then returns the judge; None: the function is the judge
    network     whether the judge keeps the host's network namespace
    bait        canary secret exposed in the judge's namespaces (bait.py); empty for none
    """

    name: str
    signature: str = ""
    argument: str | None = None
    network: bool = False
    bait: str = ""


class _Message(msgspec.Struct, frozen=True):
    """A packet from the process. token: the token of the request; empty in the first packet"""

    token: str


class _Hello(_Message, frozen=True):
    """The first packet: a description of the judge, or the reason that it is unusable."""

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
    """A judge in its own process, restarted after a crash or a timeout. call_seconds: time limit for one completion"""

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
            if convention is not Convention.ASSERTS or hello.signature not in _WITHOUT_STATEMENTS
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
            detail = f"no answer in {self._call_seconds:g} s" if hung else "its process ended"
            return Score(None, "hung" if hung else "crashed", detail, time.monotonic() - began)
        return Score(response.score, response.fault, response.detail, response.seconds)

    def restart(self) -> None:
        """End the process; the next completion starts another one."""
        self.close()

    def close(self) -> None:
        """End the process and its descendants."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
            shutil.rmtree(self._scratch, ignore_errors=True)  # in the machine's /tmp if there is no private one

    def _start(self) -> _Hello:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # each message is a packet
        descriptor = fcntl.fcntl(theirs, fcntl.F_DUPFD, _MIN_DESCRIPTOR)
        theirs.close()
        here = os.getcwd()
        spec = {
            "descriptor": descriptor, "name": self._target.name, "signature": self._target.signature,
            "argument": self._target.argument, "network": self._target.network,
            "bait": self._target.bait, "folder": here, "kept": _list_visible_folders(here, self._target),
        }  # fmt: skip
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "curate.probe.worker", json.dumps(spec)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=[descriptor],
            start_new_session=True,
            env=_build_environment(),
        )  # fmt: skip
        os.close(descriptor)
        self._channel = ours
        ours.settimeout(_LOAD_SECONDS)
        try:
            hello = self._receive(_Hello, "", time.monotonic() + _LOAD_SECONDS)
        except TimeoutError:
            self.close()
            raise UnusableTarget(f"{self._target.name} was not loaded within {_LOAD_SECONDS:g} s{_ADVICE}") from None
        except (OSError, EOFError):
            self.close()
            raise UnusableTarget(f"the process that loads {self._target.name} ended{_ADVICE}") from None
        if hello.unusable:
            self.close()
            named = f"{self._target.name}: " if self._target.argument is None else ""
            raise UnusableTarget(named + hello.unusable)
        self._scratch = hello.scratch
        return hello

    def _receive(self, kind: type[Message], token: str, until: float) -> Message:
        """Return the next packet with this request's token, and drop forged ones."""
        assert self._channel is not None
        while True:
            if (left := until - time.monotonic()) <= 0:
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
    """Return the user's environment with curate's folder in PYTHONPATH, without curate's own PYTHONSAFEPATH."""
    path = [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    return {**kept, "PYTHONPATH": os.pathsep.join(filter(None, path))}


def _list_visible_folders(here: str, target: PythonTarget) -> list[str]:
    """Return the folders of importable modules, and the folder of the target's argument if this is a file."""
    named = [here, os.path.dirname(target.argument or ""), *sys.path, sys.prefix, str(Path(sys.prefix).resolve())]
    return sorted({os.path.abspath(path) for path in named if path and os.path.isdir(path)})
