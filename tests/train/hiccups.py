"""What servers of models send now and then in place of a completion, by names."""

import socket
import struct
import threading
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler

from loopback_server import Reply


def _begin(handler: BaseHTTPRequestHandler, headers: dict[str, str], body: bytes = b"", status: int = 200) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def _reset(handler: BaseHTTPRequestHandler) -> None:
    _begin(handler, {"content-length": "1000"}, b'{"choices"')
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.rfile.close()
    handler.connection.close()


def _trickle(handler: BaseHTTPRequestHandler) -> None:
    """Send a byte now and then until the client hangs up."""
    _begin(handler, {"content-length": "1000000"})
    try:
        while not threading.Event().wait(0.02):
            handler.wfile.write(b" ")
    except OSError:
        return


def _silence(handler: BaseHTTPRequestHandler) -> None:
    handler.rfile.read(1)  # until the client hangs up


def _gibber(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"busy\r\n\r\n")


_BUSY = b'{"error": {"message": "busy"}}'
HICCUPS: dict[str, Reply] = {
    "empty choices": (200, {"choices": []}),
    "null choices": (200, {"choices": None}),
    "a choice without a message": (200, {"choices": [{"finish_reason": "stop"}]}),
    "an error in a choice": (200, {"choices": [{"finish_reason": "error", "message": {"content": "Ye"}}]}),
    "an error with 200": (200, {"error": {"message": "the upstream failed", "code": 502}}),
    "a text of an error with 200": (200, {"error": "the upstream failed"}),
    "JSON that is no object": (200, ["busy"]),
    "half of a JSON text": (200, b'{"choices": [{"message": {"content": "Ye'),
    "HTML": (200, b"<html>busy</html>"),
    "400 without a reason": (400, b""),
    "500": (500, b"<html>"),
    "503": (503, {"error": "busy"}),
    "520": (520, b"<html>"),
    "524": (524, b""),
    "529": (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    "429 with a pause": lambda handler: _begin(handler, {"retry-after": "0.6"}, _BUSY, 429),
    "503 with a date": lambda handler: _begin(handler, {"retry-after": formatdate(usegmt=True)}, _BUSY, 503),
    "no reply": None,
    "silence": _silence,
    "a reply that never ends": _trickle,
    "a reset in the body": _reset,
    "a body that ends early": lambda handler: _begin(handler, {"content-length": "1000"}, b'{"choices"'),
    "a chunk that ends early": lambda handler: _begin(handler, {"transfer-encoding": "chunked"}, b'ff\r\n{"choices"'),
    "what is not HTTP": _gibber,
}  # fmt: skip
