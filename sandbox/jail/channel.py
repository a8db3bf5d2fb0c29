"""Messages between a caller and its worker, which take turns. The length of each precedes it."""

import os
from typing import Any

from sandbox.jail import message_codec
from sandbox.jail.worker_config import WorkerConfig
from sandbox.judge import Judgement
from sandbox.program import RunResult
from sandbox.request import Answer, Request

_CHUNK_BYTES = 1 << 16  # read at once; most messages are shorter
_LENGTH_BYTES = 8
_MAX_LAYERS_BYTES = 1 << 20


class Channel:
    """A connection to the other side: one descriptor to read from and one to write to, of a socket or of two pipes.

    Methods raise EOFError or ConnectionError when the other side is gone, and the caller's also when a worker sends
    anything but the response to a request.
    """

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink
        self.received_bytes = 0  # of the latest message

    def send_request(self, request: Request[Any] | WorkerConfig) -> None:
        """Send a request, or the configuration."""
        self._send(message_codec.encode_request(request))

    def receive_request(self) -> Any:
        """Return what `send_request` has sent."""
        return message_codec.decode_request(self._receive())

    def send_response(self, response: RunResult | Judgement | dict[str, str] | Exception) -> None:
        """Send the answer to a request, the layers that isolate runs in answer to the configuration, or an error."""
        self._send(message_codec.encode_response(response))

    def receive_answer(self, request: Request[Answer]) -> Answer | Exception:
        """Return the answer to a request; an error that was sent is returned, not raised."""
        try:
            return message_codec.decode_answer(request.result_type, self._receive(request.max_result_bytes))
        except ValueError as error:
            raise _misunderstood(error) from None

    def receive_layers(self) -> dict[str, str] | Exception:
        """Return the layers that isolate runs, or the error that was sent."""
        try:
            return message_codec.decode_layers(self._receive(_MAX_LAYERS_BYTES))
        except ValueError as error:
            raise _misunderstood(error) from None

    def close(self) -> None:
        for descriptor in {self._source, self._sink}:
            os.close(descriptor)

    def _send(self, data: bytes) -> None:
        view = memoryview(len(data).to_bytes(_LENGTH_BYTES, "little") + data)
        while view:
            view = view[self.write(view) :]

    def _receive(self, max_bytes: int | None = None) -> bytes:
        """Return the next message. Raises ValueError if it is longer than max_bytes, or followed by anything."""
        data = self._read_on(b"", _LENGTH_BYTES)
        self.received_bytes = int.from_bytes(data[:_LENGTH_BYTES], "little")
        if max_bytes is not None and self.received_bytes > max_bytes:
            raise ValueError(f"{self.received_bytes:,} bytes announced, at most {max_bytes:,} expected")
        data = self._read_on(data[_LENGTH_BYTES:], self.received_bytes)
        if len(data) > self.received_bytes:
            raise ValueError(f"{len(data) - self.received_bytes} bytes follow the message")
        return data

    def _read_on(self, data: bytes, n_bytes: int) -> bytes:
        """Return `data` and at least as many more bytes as make n_bytes of it."""
        if len(data) >= n_bytes:
            return data
        longer = bytearray(data)
        while len(longer) < n_bytes:
            piece = self.read(_CHUNK_BYTES)
            if not piece:
                raise EOFError("the other side is gone")
            longer += piece
        return bytes(longer)

    def write(self, data: memoryview) -> int:
        """Write some of the data; return how many bytes were written."""
        return os.write(self._sink, data)

    def read(self, max_bytes: int) -> bytes:
        """Return at least one byte and at most max_bytes, none at the end."""
        return os.read(self._source, max_bytes)


def _misunderstood(error: Exception) -> ConnectionError:
    return ConnectionError(f"the worker's answer cannot be understood: {error}"[:300])
