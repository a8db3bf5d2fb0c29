"""Messages between a caller and its workers, each preceded by its length.

Requests are pickles: a worker trusts its caller, for whom it works. Answers are data, read as the one type that is
expected and no other: a worker handles what programs have made, and if one of them has taken the worker over, it must
not get any further, least of all out of a container.
"""

import os
import pickle
from typing import Any

from sandbox import errors, json_codec
from sandbox.judge import Judgement
from sandbox.program import RunResult
from sandbox.request import Answer

_CHUNK_BYTES = 1 << 20
_LAYERS = "layers"  # the kind of the message that says what isolates runs
_ERRORS: dict[str, type[Exception]] = {
    kind.__name__: kind
    for kind in (
        errors.BackendUnavailable,
        errors.CannotIsolate,
        errors.ExecutionLost,
        errors.KilledExternally,
        errors.RefereeError,
        errors.SandboxError,
        KeyError,
        TypeError,
        ValueError,
    )
}


class Channel:
    """A connection to the other side: one descriptor to read from and one to write to, of a socket or of two pipes."""

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink
        self.received_bytes = 0  # of the latest message

    def send_request(self, message: object) -> None:
        """Send a request, or the configuration. Raises ConnectionError when the other side is gone."""
        self._send(pickle.dumps(message, protocol=5))

    def receive_request(self) -> Any:
        """Return what `request` has sent. Raises EOFError or ConnectionError when the other side is gone."""
        return pickle.loads(self._receive())

    def send_response(self, answer: RunResult | Judgement | Exception) -> None:
        """Send the answer to a request, or the error in its place. Raises ConnectionError."""
        if isinstance(answer, Exception):
            kind = next(base.__name__ for base in type(answer).__mro__ if base.__name__ in _ERRORS)
            self._send(json_codec.dumps([kind, str(answer)]))
        else:
            self._send(json_codec.dumps([type(answer).__name__, answer]))

    def send_layers(self, layers: dict[str, str]) -> None:
        """Send the layers that isolate runs, in answer to the configuration. Raises ConnectionError."""
        self._send(json_codec.dumps([_LAYERS, layers]))

    def receive_response(self, kind: type[Answer]) -> Answer | Exception:
        """Return an answer of this type; an error that was sent is returned, not raised.

        Raises EOFError or ConnectionError when the other side is gone, or sends what it must not send.
        """
        raw = self._receive_message(kind.__name__)
        if isinstance(raw, Exception):
            return raw
        try:
            return json_codec.decode(kind, raw)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise _misunderstood(error) from None

    def receive_layers(self) -> dict[str, str] | Exception:
        """Return what `send_layers` has sent, or the error that was sent. Raises as receive_answer does."""
        raw = self._receive_message(_LAYERS)
        if isinstance(raw, Exception):
            return raw
        try:
            return {str(name): str(words) for name, words in raw.items()}
        except (ValueError, TypeError, AttributeError) as error:
            raise _misunderstood(error) from None

    def _receive_message(self, expected_kind: str) -> Any:
        """Return the content of a message of this kind, not decoded yet, or the error that was sent."""
        data = self._receive()
        try:
            kind, raw = json_codec.loads(data)
            if kind in _ERRORS:
                return _ERRORS[kind](str(raw))
            if kind != expected_kind:
                raise ValueError(f"expected {expected_kind}, not {kind!r}")
            return raw
        except (ValueError, TypeError) as error:
            raise _misunderstood(error) from None

    def close(self) -> None:
        for descriptor in {self._source, self._sink}:
            os.close(descriptor)

    def _send(self, data: bytes) -> None:
        for part in (len(data).to_bytes(8, "little"), data):
            view = memoryview(part)
            while view:
                view = view[self.write(view) :]

    def _receive(self) -> bytes:
        self.received_bytes = int.from_bytes(self._exactly(8), "little")
        return bytes(self._exactly(self.received_bytes))

    def _exactly(self, count: int) -> bytearray:
        data, piece = bytearray(), memoryview(bytearray(min(_CHUNK_BYTES, count)))
        while len(data) < count:  # in pieces, since the length that was claimed may be false
            received = self.read_into(piece[: count - len(data)])
            if not received:
                raise EOFError("the other side is gone")
            data += piece[:received]
        return data

    def write(self, data: memoryview) -> int:
        """Write some of the data; return how many bytes were written."""
        return os.write(self._sink, data)

    def read_into(self, view: memoryview) -> int:
        """Read at most len(view) bytes; return their number, 0 at the end."""
        return os.readv(self._source, [view])


def _misunderstood(error: Exception) -> ConnectionError:
    return ConnectionError(f"the worker's answer cannot be understood: {error!r}"[:300])
