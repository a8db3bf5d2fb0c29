"""nginx in front of a local service, with the configuration of a guide."""

import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_GUIDES = Path(__file__).parents[1] / "docs" / "guides"
_START_SECONDS = 30
_CONFIGURATION = """
daemon off;
user root;
pid {folder}/pid;
error_log stderr crit;
worker_processes 1;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path {folder}/bodies;
    proxy_temp_path {folder}/answers;
    {site}
}}
"""


def find() -> str | None:
    """Return the path of nginx, or None if this machine has none."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


@contextmanager
def run_nginx(port: int, guide: str = "serve.md", **directives: str) -> Iterator[int]:
    """Start nginx before a service; yield the port of nginx.

    port        the port of the service
    guide       the file in docs/guides that has the configuration
    directives  overrides of the guide's directives, by name
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        own_port: int = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        configuration = Path(folder, "nginx.conf")
        site = _site(guide, {"listen": f"127.0.0.1:{own_port}", "server": f"127.0.0.1:{port}", **directives})
        configuration.write_text(_CONFIGURATION.format(folder=folder, site=site))
        process = subprocess.Popen([find() or "nginx", "-p", folder, "-e", "stderr", "-c", configuration])
        try:
            end = time.monotonic() + _START_SECONDS
            while not _listens(own_port):
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"nginx does not start with\n{site}")
                time.sleep(0.01)
            yield own_port
        finally:
            process.terminate()
            process.wait()


def _site(guide: str, directives: dict[str, str]) -> str:
    """Return the configuration of the guide with these directives replaced."""
    found = re.search(r"^```nginx\n(.*?)^```$", (_GUIDES / guide).read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    text = found[1]
    for name, value in directives.items():
        text, n_found = re.subn(rf"^(\s*{name}) [^;{{]*;", rf"\1 {value};", text, flags=re.MULTILINE)
        assert n_found == 1, f"the guide's configuration has {n_found} directives {name!r}"
    return text


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
