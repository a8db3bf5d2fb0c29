"""The judge's connection to a zygote: transfer of run parameters and reports."""

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
    """The zygote exited or did not respond, so the run's outcome is unknown."""


class ZygoteClient:
    """The judge's connection to a zygote. stderr: descriptor of the file with its interpreter's stderr."""

    def __init__(self, channel: socket.socket, stderr: int, kill: Callable[[], None]) -> None:
        self._channel = channel
        self._stderr = stderr
        self._kill = kill
        self.shutdown_events: dict[int, int] = {}  # events at which waits raise SystemExit: descriptor -> poll mask
        self.layers: dict[str, str] = {}
        self.shares_uid = True  # whether programs may have the uid of the judge

    def wait_until_ready(self, user: str, *, shares_uid: bool) -> None:
        """Wait until the zygote is ready. Raises ZygoteLost, and BackendUnavailable if it reports a failure."""
        response = self.wait_for_response(_START_SECONDS)
        if "unavailable" in response:
            raise BackendUnavailable(response["unavailable"])
        self.layers = {"user": user, **response["layers"]}
        self.shares_uid = shares_uid

    def start_run(self, params: bytes, files: list[int]) -> None:
        """Start a run. params: encoded RunParams; files: the run's descriptors. Raises ZygoteLost."""
        try:
            socket.send_fds(self._channel, [params], files)
        except OSError as error:
            raise ZygoteLost(str(error)) from error

    def wait_for_end(self, seconds: float) -> bool:
        """Wait up to `seconds` for the report of the run; return whether it has arrived."""
        return bool(self._poll_events(seconds))

    def wait_for_response(self, timeout_seconds: float) -> dict[str, Any]:
        """Wait for the report of a run, or of the zygote's start, and return it. Raises ZygoteLost."""
        events = self._poll_events(timeout_seconds)
        if any(descriptor in self.shutdown_events for descriptor, _ in events):
            raise SystemExit(0)
        data, reason = b"", "it exited" if events else f"it did not respond within {timeout_seconds:g} s"
        try:
            data = self._channel.recv(1 << 16) if events else b""
        except OSError as error:  # it exited with unread run parameters
            reason = f"it exited: {error}"
        if not data:
            message = os.pread(self._stderr, 2000, 0).decode("utf-8", "replace").strip()
            raise ZygoteLost(message or reason)
        response: dict[str, Any] = json.loads(data)
        return response

    def _poll_events(self, seconds: float) -> list[tuple[int, int]]:
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        for descriptor, mask in self.shutdown_events.items():
            poll.register(descriptor, mask)
        return poll.poll(seconds * 1000)

    def close(self) -> None:
        """Kill the zygote and its runs."""
        self._channel.close()
        with contextlib.suppress(OSError):
            os.close(self._stderr)
        self._kill()
