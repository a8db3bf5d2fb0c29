"""Helpers that the tests of mathematics share."""

import contextlib
import os
from importlib.util import find_spec
from pathlib import Path

import pytest

needs_math_verify = pytest.mark.skipif(
    find_spec("math_verify") is None and os.environ.get("CURATE_REQUIRE_EXPORTS") != "1",
    reason="math-verify not installed; type: pip install --no-deps -r tests/requirements-exports.txt",
)


def boxed(latex: str) -> str:
    return rf"So it is $\boxed{{{latex}}}$."


def sandbox_workers() -> set[int]:
    """Return the process ids of the workers of this process's sandboxes."""
    pids = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # the process ended meanwhile
            if (
                f"PPid:\t{os.getpid()}\n" in (process / "status").read_text()
                and b"sandbox.judging.worker" in (process / "cmdline").read_bytes()
            ):
                pids.add(int(process.name))
    return pids
