"""A server on loopback that does just what a download from the Hub needs: one data set, one commit, some files."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@contextmanager
def serving(name: str, files: dict[str, bytes], revisions: tuple[str, ...] = ("main",)) -> Iterator[str]:
    """Yield the address of a Hub that has only the data set `name`, under the given revisions."""

    class Hub(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            path = self.path.partition("?")[0]
            info = {f"/api/datasets/{name}/revision/{revision}" for revision in (*revisions, COMMIT)}
            file = path.removeprefix(f"/datasets/{name}/resolve/{COMMIT}/")
            if path in info:
                siblings = [{"rfilename": file} for file in files]
                self.answer(json.dumps({"id": name, "sha": COMMIT, "siblings": siblings}).encode())
            elif path == f"/api/datasets/{name}/tree/{COMMIT}":  # newer clients request the list separately
                listed = [{"type": "file", "path": n, "oid": "", "size": len(c)} for n, c in files.items()]
                self.answer(json.dumps(listed).encode())
            elif file in files:
                self.answer(files[file])
            else:
                self.send_error(404)

        do_GET = do_HEAD

        def answer(self, content: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("ETag", f'"{hash(content):x}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def log_message(self, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
