"""Messages between the caller's process and its workers: both ours, so pickles, behind their length."""

import os
import pickle
from typing import Any


class Channel:
    """A way to the other side: one descriptor to read from and one to write to, of a socket or of two pipes."""

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink

    def send(self, message: Any) -> None:
        """Raises ConnectionError when the other side is gone."""
        data = pickle.dumps(message, protocol=5)
        for part in (len(data).to_bytes(8, "little"), data):
            view = memoryview(part)
            while view:
                view = view[self.write(view) :]

    def receive(self) -> Any:
        """The next message. Raises EOFError or ConnectionError when the other side is gone."""
        return pickle.loads(self._exactly(int.from_bytes(self._exactly(8), "little")))

    def _exactly(self, count: int) -> bytearray:
        data = bytearray(count)
        view = memoryview(data)
        while view:
            received = self.read_into(view)
            if not received:
                raise EOFError("the other side is gone")
            view = view[received:]
        return data

    def write(self, data: memoryview) -> int:
        return os.write(self._sink, data)

    def read_into(self, view: memoryview) -> int:
        """Read at most len(view) bytes; returns their number, 0 at the end."""
        return os.readv(self._source, [view])
