"""Messages between the caller's process and its workers: both ours, so pickles, behind their length."""

import pickle
import socket
from typing import Any


def send(channel: socket.socket, message: Any) -> None:
    data = pickle.dumps(message, protocol=5)
    channel.sendall(len(data).to_bytes(8, "little"))
    channel.sendall(data)


def receive(channel: socket.socket) -> Any:
    """The next message. Raises EOFError when the other side is gone."""
    return pickle.loads(_exactly(channel, int.from_bytes(_exactly(channel, 8), "little")))


def _exactly(channel: socket.socket, count: int) -> bytearray:
    data = bytearray(count)
    view = memoryview(data)
    while view:
        received = channel.recv_into(view)
        if not received:
            raise EOFError("the other side is gone")
        view = view[received:]
    return data
