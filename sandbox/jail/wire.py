"""Messages between a caller and its workers, behind their length.

Requests are pickles: a worker trusts its caller, for whom it works. Answers are data, read as the types that are
expected and no others: a worker handles what programs have made, and in a container it is to stay there even if one of
them has taken it over.
"""

import os
import pickle
from typing import Any

from sandbox import errors, messages
from sandbox.judge import Judgement
from sandbox.program import RunResult

_PIECE = 1 << 20
_KINDS: dict[str, type[Any]] = {"Judgement": Judgement, "RunResult": RunResult}
_ERRORS: dict[str, type[Exception]] = {
    kind.__name__: kind
    for kind in (
        errors.BackendUnavailable,
        errors.ExecutionLost,
        errors.KilledFromOutside,
        errors.RefereeFailed,
        errors.SandboxError,
        KeyError,
        TypeError,
        ValueError,
    )
}


class Channel:
    """A way to the other side: one descriptor to read from and one to write to, of a socket or of two pipes."""

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink
        self.received_bytes = 0  # of the latest message

    def request(self, message: Any) -> None:
        """Send a request, or the configuration. Raises ConnectionError when the other side is gone."""
        self._send(pickle.dumps(message, protocol=5))

    def receive_request(self) -> Any:
        """What `request` has sent. Raises EOFError or ConnectionError when the other side is gone."""
        return pickle.loads(self._receive())

    def answer(self, message: Any) -> None:
        """Send a RunResult, a Judgement, the layers of isolation, or an error. Raises ConnectionError."""
        kind = type(message).__name__
        if isinstance(message, Exception):
            kind = next(base.__name__ for base in type(message).__mro__ if base.__name__ in _ERRORS)
            message = str(message)
        self._send(messages.dumps([kind, message]))

    def receive_answer(self) -> Any:
        """What `answer` has sent; errors are returned, not raised. Raises EOFError or ConnectionError when the other
        side is gone, or says what it may not say."""
        data = self._receive()
        try:
            kind, raw = messages.loads(data)
            if kind in _ERRORS:
                return _ERRORS[kind](str(raw))
            if kind == "dict":
                return {str(name): str(words) for name, words in raw.items()}
            return messages.decode(_KINDS[kind], raw)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ConnectionError(f"the worker's answer cannot be understood: {error!r}"[:300]) from None

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
        data, piece = bytearray(), memoryview(bytearray(min(_PIECE, count)))
        while len(data) < count:  # in pieces: a length is easily said
            received = self.read_into(piece[: count - len(data)])
            if not received:
                raise EOFError("the other side is gone")
            data += piece[:received]
        return data

    def write(self, data: memoryview) -> int:
        return os.write(self._sink, data)

    def read_into(self, view: memoryview) -> int:
        """Read at most len(view) bytes; returns their number, 0 at the end."""
        return os.readv(self._source, [view])
