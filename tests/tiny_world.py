"""Six problems, and a tiny model that was taught what to answer to them: real parts for tests of sampling.

The model always solves `sum` and `double`, solves `product` half of the time, and never solves `difference`. Its
answers to `larger` do not end, and its answers to `smaller` contain no program.
"""

import http.client
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tiny_model import teach

PAIRS = [(n, 7 - 2 * n) for n in range(6)]
STARTER = "class Solution:\n    def double(self, n: int) -> int:\n        "
MOST_TOKENS = 36  # enough for all answers except the endless one
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


def chat(statement: str, starter_code: str = "", entry_point: str | None = None) -> list[dict[str, str]]:
    """Return the messages that ask for a program, in the usual form."""
    from curate.prompt import Prompt
    from sandbox import Suite

    return Prompt().chat(statement, starter_code, Suite([], entry_point=entry_point))


def model(folder: Path) -> Path:
    lessons = {}
    for name, (_, answers) in PROBLEMS.items():
        call = name == "double"
        (message,) = chat(statement(name), STARTER if call else "", name if call else None)
        lessons[message["content"]] = answers
    return teach(folder, lessons)


@contextmanager
def served(folder: Path, log: Path) -> Iterator[str]:
    """Serve the model with vLLM's own OpenAI-compatible server, a process on loopback, and yield its base URL."""
    process, port = _started(folder, log)
    try:
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        _end(process)


def _started(folder: Path, log: Path, tries: int = 3) -> tuple["subprocess.Popen[bytes]", int]:
    port = _free_port()  # another process may take it before the server does
    # `vllm serve` does the same, but needs the version of a package named vllm; this package is named vllm-cpu.
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--enforce-eager", "--dtype", "float32"]
    command += ["--no-enable-chunked-prefill"]  # see train/sampling/vllm.py
    with log.open("wb") as words:
        process = subprocess.Popen(command, stdout=words, stderr=words, env={**os.environ, **ENVIRONMENT})
    try:
        _wait(process, port, log)
    except AssertionError:
        _end(process)
        if tries > 1 and "address already in use" in log.read_text():
            return _started(folder, log, tries - 1)
        raise
    return process, port


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait(process: "subprocess.Popen[bytes]", port: int, log: Path, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
            return
        except (OSError, http.client.HTTPException):  # the latter if the port is another's, who speaks no HTTP
            if process.poll() is not None or time.monotonic() > end:
                raise AssertionError(log.read_text()[-3000:]) from None
            time.sleep(0.2)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
