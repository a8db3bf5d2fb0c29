"""Processes that parse and write large JSON. Such work holds the interpreter lock, so if the service did it in its own
process, nobody else would be served meanwhile. There are two such processes: clients that send much data delay only
each other.
"""

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

from sandbox.service import request_codec
from sandbox.service.service_errors import SandboxFailed, ServiceError

NUMBER = 2
_MEMORY_BYTES = 4 << 30
_TASKS: dict[str, Callable[..., Any]] = {"read": request_codec.parse_and_pack, "write": request_codec.encode}


class JsonProcessPool:
    """The helper processes, each started when it is first needed. Safe for any number of threads."""

    def __init__(self) -> None:
        self._all = [_Helper() for _ in range(NUMBER)]
        self._free: queue.LifoQueue[_Helper] = queue.LifoQueue()
        for helper in self._all:
            self._free.put(helper)

    def run_task(self, task: str, *arguments: Any) -> Any:
        """Return the result of the task, `read` or `write`. Raises a ServiceError."""
        helper = self._free.get()
        try:
            return helper.ask(task, arguments)
        finally:
            self._free.put(helper)

    def close(self) -> None:
        for _ in self._all:
            self._free.get().end()


class _Helper:
    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Connection | None = None

    def ask(self, task: str, arguments: tuple[Any, ...]) -> Any:
        if self._channel is None:
            self._start()
        assert self._channel is not None
        try:
            self._channel.send_bytes(pickle.dumps((task, arguments)))
            answer = pickle.loads(self._channel.recv_bytes())
        except (EOFError, OSError) as error:
            self.end()
            raise SandboxFailed("the process that parses and writes large JSON died; send smaller requests") from error
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _start(self) -> None:
        self._channel, theirs = Pipe()
        project = str(Path(__file__).parents[2])
        start = (
            f"import sys; sys.path.insert(0, {project!r}); from sandbox.service.json_processes import main;"
            f" main({theirs.fileno()})"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-B", "-c", start],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C must not reach it: it ends when we end
        )
        theirs.close()

    def end(self) -> None:
        if self._channel is not None and self._process is not None:
            self._channel.close()
            self._process.kill()
            self._process.wait()
            self._channel = self._process = None


def main(descriptor: int) -> None:
    """Be a helper: carry out tasks until the service has ended."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    channel = Connection(descriptor)
    while True:
        try:
            task, arguments = pickle.loads(channel.recv_bytes())
        except (EOFError, OSError):
            return
        try:
            answer = _TASKS[task](*arguments)
        except ServiceError as refusal:
            answer = refusal
        except MemoryError:
            os._exit(1)
        channel.send_bytes(pickle.dumps(answer))
