"""A zygote as its judge sees it: a channel to send jobs through, and how they ended."""

import contextlib
import json
import os
import select
import socket
from collections.abc import Callable
from typing import Any

from sandbox.errors import BackendUnavailable

_START_SECONDS = 60


class ZygoteLost(Exception):
    """The zygote died or fell silent; whether the run would have been right is unknown."""


class Zygote:
    """words: descriptor of what its interpreter says on stderr should it fail. end: has it killed."""

    def __init__(self, channel: socket.socket, words: int, end: Callable[[], None]) -> None:
        self._channel = channel
        self._words = words
        self._end = end
        self._ends: dict[int, int] = {}
        self.layers: dict[str, str] = {}
        self.shares_uid = True  # what the judge makes, programs own

    def settle(self, user: str, *, shares_uid: bool) -> None:
        """Wait until it is ready. Raises BackendUnavailable if it says that it cannot be, and ZygoteLost."""
        answer = self._receive(_START_SECONDS)
        if "unavailable" in answer:
            raise BackendUnavailable(answer["unavailable"])
        self.layers = {"user": user, **answer["layers"]}
        self.shares_uid = shares_uid

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
        """Have it killed, and with it all runs in its namespaces."""
        self._channel.close()
        with contextlib.suppress(OSError):
            os.close(self._words)
        self._end()
