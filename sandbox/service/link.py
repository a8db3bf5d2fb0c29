"""The connection between the dispatcher and a front end: a Unix socket, over which each calls methods of the other.

A call is a method's name and arguments; it has no result. One length-prefixed pickle carries all calls of an iteration
of the event loop. Pickle is safe, since both ends are processes of one service.
"""

import asyncio
import pickle
from collections.abc import Callable
from typing import Any

_LENGTH_BYTES = 8


class Link(asyncio.Protocol):
    """One end of the connection.

    methods  methods that the peer can call: name -> method
    on_end   called when the peer exits
    """

    def __init__(self, methods: dict[str, Callable[..., object]], on_end: Callable[[], object]) -> None:
        self._methods = methods
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._calls: list[tuple[Any, ...]] = []  # unsent calls: name, arguments
        self._transport: asyncio.Transport | None = None

    def call(self, method: str, *arguments: Any) -> None:
        """Call a method of the peer, without waiting."""
        if not self._calls:
            self._loop.call_soon(self.flush)
        self._calls.append((method, *arguments))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def flush(self) -> None:
        """Send all calls now."""
        calls, self._calls = self._calls, []
        if calls and self._transport is not None and not self._transport.is_closing():
            data = pickle.dumps(calls, protocol=5)
            self._transport.writelines([len(data).to_bytes(_LENGTH_BYTES, "little"), data])

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._on_end()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        start = 0
        while (end := self._find_message_end(start)) <= len(self._buffer):
            with memoryview(self._buffer) as buffer, buffer[start + _LENGTH_BYTES : end] as message:
                calls = pickle.loads(message)
            for method, *arguments in calls:
                self._methods[method](*arguments)
            start = end
        del self._buffer[:start]

    def _find_message_end(self, start: int) -> int:
        body = start + _LENGTH_BYTES
        return body + (int.from_bytes(self._buffer[start:body], "little") if body <= len(self._buffer) else 0)
