"""The connection between a caller and its worker: requests and responses with a length prefix."""

import os
from typing import Any

from sandbox.jail.worker_config import WorkerConfig
from sandbox.judge import Judgement
from sandbox.judging import message_codec
from sandbox.program import RunResult
from sandbox.request import Request, Response

_CHUNK_BYTES = 1 << 16  # maximum size of a read; most messages are shorter
_LENGTH_BYTES = 8
_MAX_LAYERS_BYTES = 1 << 20


class Channel:
    """A connection to the peer over one descriptor to read and one to write, of a socket or two pipes.

    Methods raise EOFError or ConnectionError if the peer has exited, and ConnectionError for a malformed response.
    """

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink
        self._buffer = bytearray()  # received part of an incomplete message
        self.message_bytes = 0  # size of the latest message

    def fileno(self) -> int:
        return self._source

    def send_request(self, request: Request[Any] | WorkerConfig) -> None:
        self._send(frame_request(request))

    def receive_request(self) -> Any:
        return message_codec.decode_request(self._receive(None))

    def send_response(self, response: RunResult | Judgement | dict[str, str] | Exception) -> None:
        """Send an error, or the response to a request; in response to the configuration, send the isolation layers."""
        self._send(_prefix_length(message_codec.encode_response(response)))

    def receive_response(self, request: Request[Response]) -> Response | Exception:
        """Receive and return the response to a request, or the worker's error."""
        while (response := self.take_response(self.read(_CHUNK_BYTES), request)) is None:
            pass
        return response

    def take_response(self, data: bytes, request: Request[Response]) -> Response | Exception | None:
        """Append received bytes; return the complete response, or the worker's error; None if incomplete."""
        try:
            message = self._assemble(data, request.max_result_bytes)
            return None if message is None else message_codec.decode_response(request.result_type, message)
        except ValueError as error:
            raise _to_connection_error(error) from None

    def receive_layers(self) -> dict[str, str] | Exception:
        """Receive and return the isolation layers, or the worker's error."""
        try:
            return message_codec.decode_layers(self._receive(_MAX_LAYERS_BYTES))
        except ValueError as error:
            raise _to_connection_error(error) from None

    def close(self) -> None:
        for descriptor in {self._source, self._sink}:
            os.close(descriptor)

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self.write(view) :]

    def _receive(self, max_bytes: int | None) -> bytes:
        while (message := self._assemble(self.read(_CHUNK_BYTES), max_bytes)) is None:
            pass
        return message

    def _assemble(self, data: bytes, max_bytes: int | None) -> bytes | None:
        """Append received bytes (empty at EOF); return the complete message, None if incomplete.

        Raises ValueError if it is longer than max_bytes, or if more bytes follow.
        """
        if not data:
            raise EOFError("the peer has disconnected")
        self._buffer += data
        n_received = len(self._buffer) - _LENGTH_BYTES
        if n_received < 0:
            return None
        self.message_bytes = int.from_bytes(self._buffer[:_LENGTH_BYTES], "little")
        if max_bytes is not None and self.message_bytes > max_bytes:
            raise ValueError(f"its length is {self.message_bytes:,} bytes, expected at most {max_bytes:,}")
        if n_received > self.message_bytes:
            raise ValueError(f"{n_received - self.message_bytes} bytes follow the message")
        if n_received < self.message_bytes:
            return None
        message, self._buffer = bytes(memoryview(self._buffer)[_LENGTH_BYTES:]), bytearray()
        return message

    def write(self, data: memoryview) -> int:
        """Write some of the data; return the number of bytes written."""
        return os.write(self._sink, data)

    def read(self, max_bytes: int) -> bytes:
        """Read at least one byte and at most max_bytes; return b"" at EOF."""
        return os.read(self._source, max_bytes)


def frame_request(request: Request[Any] | WorkerConfig) -> bytes:
    """Encode a request, or the configuration, with its length prefix."""
    return _prefix_length(message_codec.encode_request(request))


def _prefix_length(data: bytes) -> bytes:
    return len(data).to_bytes(_LENGTH_BYTES, "little") + data


def _to_connection_error(error: Exception) -> ConnectionError:
    return ConnectionError(f"the worker's response is malformed: {error}"[:300])
