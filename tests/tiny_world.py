"""Six problems, and a tiny model that was taught what to answer to them: real parts for tests of sampling.

The model always solves `sum` and `double`, solves `product` half of the time, and never solves `difference`. Its
answers to `larger` do not end, and its answers to `smaller` contain no program.
"""

import hashlib
import http.client
import json
import os
import platform
import socket
import sys
import time
import urllib.request
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import IO, TYPE_CHECKING

import tiny_model
from tiny_model import teach

if TYPE_CHECKING:
    import forked

PAIRS = [(n, 7 - 2 * n) for n in range(6)]
STARTER = "class Solution:\n    def double(self, n: int) -> int:\n        "
MAX_TOKENS = 36  # enough for all answers except the endless one
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
}


def fenced(code: str) -> str:
    return f"Here it is.\n```python\n{code}\n```"


def stdin_tests(operation: Callable[[int, int], int]) -> list[tuple[str, str]]:
    return [(f"{a} {b}\n", f"{operation(a, b)}\n") for a, b in PAIRS]


READ = "a, b = map(int, input().split())\n"
PROBLEMS = {
    "sum": (stdin_tests(lambda a, b: a + b), [fenced("print(sum(map(int, input().split())))")]),
    "product": (
        stdin_tests(lambda a, b: a * b),
        [fenced(READ + "print(a * b)"), fenced(READ + "print(a + b)")],
    ),
    "difference": (stdin_tests(lambda a, b: a - b), [fenced("print(0)")]),
    "larger": (stdin_tests(max), ["Let me think. " + "Hmm. " * 24]),
    "smaller": (stdin_tests(min), ["I do not know."]),
    "double": (
        [(str(a), str(2 * a)) for a, _ in PAIRS],
        [fenced("class Solution:\n    def double(self, n):\n        return 2 * n")],
    ),
}


def statement(name: str) -> str:
    if name == "double":
        return "Given one integer, return twice its value."
    return f"Read two integers on one line and print their {name}."


def rows() -> list[dict[str, object]]:
    """Return the problems as rows of LiveCodeBench."""
    from source_rows import livecodebench_row

    return [
        livecodebench_row(
            name,
            statement(name),
            tests,
            question_title=name,
            **({"func_name": name, "starter_code": STARTER} if name == "double" else {}),
        )
        for name, (tests, _) in PROBLEMS.items()
    ]


def prompts(*names: str, times: int = 4) -> list[tuple[list[dict[str, str]], int]]:
    """Return the messages that ask for these problems, several times each, with their seeds."""
    return [(chat(statement(name)), seed) for name in names for seed in range(times)]


def chat(statement: str, starter_code: str = "", entry_point: str | None = None) -> list[dict[str, str]]:
    """Return the messages that ask for a program, in the usual form."""
    from curate.prompt import PromptFormat
    from sandbox import Suite

    return PromptFormat().build_chat(statement, starter_code, Suite([], entry_point=entry_point))


def lessons() -> dict[str, list[str]]:
    """Return the model's answers to each message."""
    taught = {}
    for name, (_, answers) in PROBLEMS.items():
        call = name == "double"
        (message,) = chat(statement(name), STARTER if call else "", name if call else None)
        taught[message["content"]] = answers
    return taught


def model(folder: Path) -> Path:
    return teach(folder, lessons())


def model_key() -> str:
    """Return a hash of all that the model's files depend on."""
    parts = [Path(tiny_model.__file__).read_text(), json.dumps(lessons()), platform.machine()]
    parts += [version(name) for name in ("torch", "transformers", "tokenizers")]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def serve(model: Path, folder: Path) -> str:
    """Serve the model with vLLM's own OpenAI-compatible server until the test run ends, and return its base URL.

    The server is a process on loopback, and writes its log to the folder.
    """
    for _ in range(3):
        port = _free_port()  # another process may take it before the server does
        with (folder / "log").open("wb") as log:
            process = _server(model, port, log)
        if _answers(process, port):
            process.leave_to_run()
            return f"http://127.0.0.1:{port}/v1"
        if "address already in use" not in (folder / "log").read_text():
            break
    raise AssertionError((folder / "log").read_text()[-3000:])


def _server(model: Path, port: int, log: IO[bytes]) -> "forked.Popen":
    import forked

    # `vllm serve` does the same, but needs the version of a package named vllm; this package is named vllm-cpu.
    # Its engine is a fork as well, and not a fresh process, which would import everything again.
    start = "import multiprocessing, runpy; fork = multiprocessing.get_context('fork')\n"
    start += "multiprocessing.get_context = lambda method=None: fork\n"
    start += "runpy.run_module('vllm.entrypoints.openai.api_server', run_name='__main__')"
    command = [sys.executable, "-c", start, "--model", str(model)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--enforce-eager", "--dtype", "float32"]
    command += ["--no-enable-chunked-prefill"]  # see train/sampling/vllm.py
    return forked.Popen(command, stdout=log, stderr=log, env={**os.environ, **ENVIRONMENT})


def _answers(process: "forked.Popen", port: int, seconds: float = 300) -> bool:
    """Wait for the server, and return whether it answers; kill it if not."""
    end = time.monotonic() + seconds
    while process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
            return True
        except (OSError, http.client.HTTPException):  # the latter if the port is another's, who speaks no HTTP
            if time.monotonic() > end:
                process.kill()
            time.sleep(0.2)
    return False


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
