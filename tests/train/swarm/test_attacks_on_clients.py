"""Attacks on the parts of a swarm that meet hostile bytes. Each was tried, and those that worked do so no more."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Raw

from train.errors import ControllerUnreachable
from train.swarm.broadcast.request import NotAvailable, RelayError, get, open_relay
from train.swarm.client import SignedClient
from train.swarm.invites import create_invite
from train.swarm.requests import SIGNATURE, sign_reply

RUN_KEY, NODE_KEY = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
DIGITS = "9" * 5000  # more than Python turns into a number
DEEP = "[" * 100_000

# What a relay, or somebody between it and the client, may answer.
REPLIES = {
    "404 with a length of many digits": f"HTTP/1.1 404 x\r\nContent-Length: {DIGITS}\r\n\r\n",
    "200 with a length of many digits": f"HTTP/1.1 200 x\r\nContent-Length: {DIGITS}\r\n\r\nabc",
    "404 that is shorter than it says": "HTTP/1.1 404 x\r\nContent-Length: 999\r\n\r\nabc",
    "a negative length": "HTTP/1.1 404 x\r\nContent-Length: -5\r\n\r\nabc",
    "two lengths": "HTTP/1.1 200 x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
    "a huge chunk": "HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFFFFF\r\nabc",
    "a negative chunk": "HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabc",
    "busy for many digits": f"HTTP/1.1 429 x\r\nRetry-After: {DIGITS}\r\n\r\n",
    "busy for no number": "HTTP/1.1 503 x\r\nRetry-After: \xb2\r\n\r\n",
    "no status": "HTTP/1.1 -1 x\r\n\r\n",
    "no HTTP": "\0" * 100,
    "nothing": "",
    "too many headers": "HTTP/1.1 200 OK\r\n" + "x: y\r\n" * 200 + "\r\n",
    "a header that is too long": f"HTTP/1.1 200 OK\r\nx: {'y' * 70_000}\r\n\r\n",
    "continue without end": "HTTP/1.1 100 Continue\r\n\r\n" * 2000,
    "another protocol": "HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\nabc",
    "a redirect": "HTTP/1.1 302 x\r\nLocation: file:///etc/passwd\r\n\r\n",
    "a refusal that is nested deeply": f'HTTP/1.1 403 x\r\n\r\n{{"detail":{DEEP}',
    "a start that is nested deeply": f'HTTP/1.1 421 x\r\n\r\n{{"start":{DEEP}',
    "a refusal that is a list": "HTTP/1.1 403 x\r\n\r\n[]",
    "a signature of no digits": "HTTP/1.1 403 x\r\nx-curate-signature: \xb2\xb2\r\n\r\n[]",
}


@contextmanager
def server(reply: str) -> Iterator[str]:
    """Answer everything with these bytes; the URL is yielded."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(2**16)
                    connection.sendall(reply.encode("latin-1"))
            except OSError:
                return

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5.0)


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_whatever_a_relay_answers_is_an_answer_or_a_fault_of_the_relay(reply: str) -> None:
    with server(reply) as url, closing(open_relay(url, 1)) as client, suppress(RelayError, NotAvailable):
        assert get(client, "runs/run/latest", 1000, seconds=5) == b"abc"


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_whatever_stands_before_the_coordinator_cannot_end_a_node(reply: str) -> None:
    with server(reply) as url:
        invite = create_invite(RUN_KEY, run="run", coordinator=url, relays=(), role="node", seconds=60)
        client = SignedClient(invite, NODE_KEY, reply_seconds=5)
        with pytest.raises(ControllerUnreachable):
            client.call("/step", None, dict)
        client.close()


def test_the_words_of_a_refusal_do_nothing_to_a_terminal() -> None:
    words = '{"detail": "\\u001b[2J\\u001b]0;title\\u0007\\nINFO all is well\\u202e"}'
    with server(f"HTTP/1.1 403 x\r\n\r\n{words}") as url:
        invite = create_invite(RUN_KEY, run="run", coordinator=url, relays=(), role="node", seconds=60)
        client = SignedClient(invite, NODE_KEY, reply_seconds=5)
        with pytest.raises(ControllerUnreachable, match="INFO all is well") as error:
            client.call("/step", None, dict)
        client.close()
    assert str(error.value).isprintable()


def test_a_file_may_take_longer_to_send_than_a_connection_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("train.swarm.client._CONNECT_SECONDS", 0.4)
    body = bytes(16 * 2**20)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)
    listener.bind(("127.0.0.1", 0))
    listener.listen()

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as request:
            lines = [line.decode().strip() for line in iter(request.readline, b"\r\n")]
            headers = dict(line.split(": ", 1) for line in lines[1:])
            for _ in range(16):
                time.sleep(0.1)
                request.read(len(body) // 16)
            signed = sign_reply(bytes.fromhex(headers[SIGNATURE]), 200, b"\xa5taken", RUN_KEY)
            connection.sendall(
                f"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n{SIGNATURE}: {signed[SIGNATURE]}\r\n\r\n".encode()
                + b"\xa5taken"
            )

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    invite = create_invite(RUN_KEY, run="run", coordinator=url, relays=(), role="node", seconds=60)
    client = SignedClient(invite, NODE_KEY, reply_seconds=10.0)
    assert client.call("/upload/00", Raw(body), str) == "taken"
    client.close()
    thread.join(5.0)
    listener.close()
