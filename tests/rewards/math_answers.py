"""Helpers that the tests of mathematics share."""

import contextlib
import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from answers import text_answer

from rewards.mathematics.reward import MathReward
from rewards.reward import Task

needs_math_verify = pytest.mark.skipif(
    find_spec("math_verify") is None and os.environ.get("CURATE_REQUIRE_EXPORTS") != "1",
    reason="math-verify not installed; type: pip install --no-deps -r tests/requirements-exports.txt",
)


def boxed(latex: str) -> str:
    return rf"So it is $\boxed{{{latex}}}$."


def children() -> set[int]:
    """Return the process ids of our children that compare mathematics."""
    pids = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # the process ended meanwhile
            if (
                f"PPid:\t{os.getpid()}\n" in (process / "status").read_text()
                and b"mathematics/comparison_process.py" in (process / "cmdline").read_bytes()
            ):
                pids.add(int(process.name))
    return pids


def comparing_process(reward: MathReward, before: set[int]) -> Path:
    """Return the /proc folder of the process that forks for each comparison; `before` has our older child processes."""
    assert reward(text_answer(boxed("2")), Task(expected="2")).value == 1.0
    (child,) = children() - before
    below = (Path("/proc") / str(child) / "task" / str(child) / "children").read_text().split()
    return Path("/proc") / (below[0] if below else str(child))
