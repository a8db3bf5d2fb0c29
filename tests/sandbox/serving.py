"""Start services for tests: real processes that listen on free ports."""

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import forked
import psutil
from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).parents[2]
CURATE = [sys.executable, "-c", "from cli import main; main()"]
JSON = {"content-type": "application/json"}
ECHO = {"code": "print(input())", "language": "python"}
SLEEP = {"code": "import time\ntime.sleep(60)", "language": "python", "run_timeout": 60}
SERVICE_PROGRAM = """
import sys
from sandbox import ExecutionLost, Sandbox
from sandbox.service import server
from sandbox.service.listener import listen_many
from sandbox.service.settings import ServiceSettings

class FailingSandbox(Sandbox):
    def submit(self, request, done): done(ExecutionLost("the worker died"))

class UnisolatedSandbox(Sandbox):
    layers = {{"network": "none: not on this machine", "files": "read-only root", "numpy": "none: not installed"}}

with {box} as box:
    listeners = listen_many("127.0.0.1", 0, {processes})
    port = listeners[0].getsockname()[1]
    settings = ServiceSettings({settings})
    done = server.serve(box, settings, listeners, lambda: print(f"at 127.0.0.1:{{port}} (", flush=True))
sys.exit(not done)
"""


class Service:
    """A process that serves, and what it prints.

    popen   starts the process: as a fork, or as users start it
    """

    def __init__(
        self,
        command: list[str],
        environment: dict[str, str] | None = None,
        popen: "type[subprocess.Popen[Any]]" = forked.Popen,
    ) -> None:
        self._stderr = os.memfd_create("stderr")
        self.process = popen(
            command,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT), **os.environ, **(environment or {})},
        )
        assert self.process.stdout is not None
        self.greeting = self.process.stdout.readline().decode()
        if " (" not in self.greeting:
            self.process.wait()
            raise AssertionError(self.stderr)
        self.port = int(self.greeting.split(" (")[0].rsplit(":", 1)[1])
        self.url = f"http://127.0.0.1:{self.port}"

    @property
    def stderr(self) -> str:
        return os.pread(self._stderr, 1 << 20, 0).decode()

    def send_request(
        self, path: str, content: Any = None, *, headers: dict[str, str] | None = None
    ) -> tuple[int, Any, http.client.HTTPResponse]:
        """Send a request, and return (status, body, response). A JSON body of the response is decoded.

        Without `content`, it is a GET request. Bytes are sent unchanged, anything else as JSON.
        """
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        body = content if isinstance(content, bytes) or content is None else json.dumps(content).encode()
        connection.request("GET" if content is None else "POST", path, body, JSON | (headers or {}))
        response = connection.getresponse()
        data = response.read()
        connection.close()
        return response.status, _plain(data, response), response

    def metric(self, name: str, **labels: str) -> float:
        """Return the value of a metric; 0 if there is none."""
        families = text_string_to_metric_families(self.send_request("/metrics")[1])
        samples = (sample for family in families for sample in family.samples if sample.name == name)
        return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())

    def counts(self) -> Callable[..., float]:
        """Return a function like `metric` that counts from now on."""
        samples: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}

        def change(name: str, **labels: str) -> float:
            return self.metric(name, **labels) - sum(
                value for (other, its), value in samples.items() if other == name and labels.items() <= its
            )

        for family in text_string_to_metric_families(self.send_request("/metrics")[1]):
            samples |= {(sample.name, frozenset(sample.labels.items())): sample.value for sample in family.samples}
        return change

    def end(self, number: int = signal.SIGTERM, seconds: float = 60) -> int:
        self.process.send_signal(number)
        return self.process.wait(seconds)

    def close(self) -> None:
        if self.process.poll() is None:
            self.end()
        assert self.process.stdout is not None
        self.process.stdout.close()
        os.close(self._stderr)


def _plain(data: bytes, response: http.client.HTTPResponse) -> Any:
    if response.headers.get("content-type") == "application/json":
        return json.loads(data)
    return data.decode()


@contextmanager
def serving(
    *options: str,
    port: int = 0,
    environment: dict[str, str] | None = None,
    popen: "type[subprocess.Popen[Any]]" = forked.Popen,
) -> Iterator[Service]:
    """Run `curate serve` with these options, by default on a free port."""
    service = Service([*CURATE, "serve", "--port", str(port), *options], environment, popen)
    try:
        yield service
    finally:
        service.close()


@contextmanager
def serve_with_settings(box: str = "Sandbox(workers=1)", *, processes: int = 1, **settings: Any) -> Iterator[Service]:
    """Run a service with settings for which `curate serve` has no options."""
    chosen = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    code = SERVICE_PROGRAM.format(box=box, settings=chosen, processes=processes)
    service = Service([sys.executable, "-c", code])
    try:
        yield service
    finally:
        service.close()


def stdout(answer: Any) -> Any:
    return answer["run_result"]["stdout"]


def front_ends(service: Service) -> list[psutil.Process]:
    """Return the processes of a service that speak HTTP."""
    children = psutil.Process(service.process.pid).children()
    return [child for child in children if "sandbox.service.front_end" in " ".join(child.cmdline())]
