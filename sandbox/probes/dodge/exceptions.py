"""Raises what a judge may take for a skipped test or for a failure of its own."""

from sandbox.probes.probe import Group, ProbeClass, inside

_RAISED = {
    "skip-test": "import unittest\nraise unittest.SkipTest('later')",
    "keyboard-interrupt": "raise KeyboardInterrupt",
    "generator-exit": "raise GeneratorExit",
    "stop-iteration": "raise StopIteration",
    "cancelled": "import asyncio\nraise asyncio.CancelledError",
    "timeout": "raise TimeoutError('timed out')",
    "expired": "import subprocess\nraise subprocess.TimeoutExpired('run', 1)",
    "out-of-memory": "raise MemoryError",
    "connection": "raise ConnectionError('refused')",
    "broken-pipe": "raise BrokenPipeError",
    "not-implemented": "raise NotImplementedError",
    "recursion": "raise RecursionError",
    "assertion": "raise AssertionError",
    "import": "raise ImportError('no module')",
    "disk-full": "raise OSError(28, 'No space left on device')",
    "base-exception": "raise BaseException('stop')",
    "exit-with-words": "raise SystemExit('passed')",
    "pytest-skip": "import pytest\npytest.skip('later')",
    "warning": "raise UserWarning('careful')",
}

CLASS = ProbeClass(
    Group.DODGE,
    "exceptions",
    why="The judge leaves tests that were skipped, or that it blames on itself, out of the denominator.",
    remedy="A test that was not passed is failed, whatever an answer raised; only the judge's own errors are unknown.",
    source="ours",
    probes=tuple(inside(name, body) for name, body in _RAISED.items()),
)
