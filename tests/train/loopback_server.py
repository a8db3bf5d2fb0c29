"""A server on loopback whose answers a test decides."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = tuple[int, object] | Callable[[BaseHTTPRequestHandler], None] | None


@contextmanager
def answering(answer: Callable[[str, int, Any], Reply]) -> Iterator[tuple[str, list[tuple[str, Message, Any]]]]:
    """Serve HTTP. `answer` returns the reply to a request, given its path, number and content.

    A reply is a status with a body, a function that writes to a handler, or None to hang up.
    """
    asked: list[tuple[str, Message, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.reply(None)

        def do_POST(self) -> None:
            self.reply(json.loads(self.rfile.read(int(self.headers["content-length"]))))

        def reply(self, content: Any) -> None:
            asked.append((self.path, self.headers, content))
            reply = answer(self.path, len(asked), content)
            if reply is None or callable(reply):
                self.close_connection = True
                if reply is not None:
                    reply(self)
                return
            status, body = reply
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1", asked
        finally:
            server.shutdown()
