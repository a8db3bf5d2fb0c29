"""Processes for JSON that is large. Reading and writing it holds the interpreter, so that here nobody else would be
served meanwhile. There are two: whoever sends much keeps others waiting who send much, and nobody else."""

import os
import pickle
import queue
import resource
import subprocess
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

from sandbox.service import translation
from sandbox.service.refusals import Failed, Refusal

NUMBER = 2
_MEMORY_BYTES = 4 << 30
_DOES: dict[str, Callable[..., Any]] = {"read": translation.read_and_pack, "write": translation.write}


class Helpers:
    """Started when first needed. For any number of threads."""

    def __init__(self) -> None:
        self._all = [_Helper() for _ in range(NUMBER)]
        self._free: queue.LifoQueue[_Helper] = queue.LifoQueue()
        for helper in self._all:
            self._free.put(helper)

    def ask(self, what: str, *arguments: Any) -> Any:
        """What `read` or `write` gives. Raises a Refusal."""
        helper = self._free.get()
        try:
            return helper.ask(what, arguments)
        finally:
            self._free.put(helper)

    def close(self) -> None:
        for _ in self._all:
            self._free.get().end()


class _Helper:
    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Connection | None = None

    def ask(self, what: str, arguments: tuple[Any, ...]) -> Any:
        if self._channel is None:
            self._start()
        assert self._channel is not None
        try:
            self._channel.send_bytes(pickle.dumps((what, arguments)))
            answer = pickle.loads(self._channel.recv_bytes())
        except (EOFError, OSError) as error:
            self.end()
            raise Failed("the process that reads and writes large JSON died; send less at once") from error
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _start(self) -> None:
        self._channel, theirs = Pipe()
        project = str(Path(__file__).parents[2])
        start = (
            f"import sys; sys.path.insert(0, {project!r}); from sandbox.service.helpers import main;"
            f" main({theirs.fileno()})"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-B", "-c", start],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C is not for it: it goes when we go
        )
        theirs.close()

    def end(self) -> None:
        if self._channel is not None and self._process is not None:
            self._channel.close()
            self._process.kill()
            self._process.wait()
            self._channel = self._process = None


def main(descriptor: int) -> None:
    """Serve until the service has gone."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    channel = Connection(descriptor)
    while True:
        try:
            what, arguments = pickle.loads(channel.recv_bytes())
        except (EOFError, OSError):
            return
        try:
            answer = _DOES[what](*arguments)
        except Refusal as refusal:
            answer = refusal
        except MemoryError:
            os._exit(1)
        channel.send_bytes(pickle.dumps(answer))
