"""Submissions that raise an exception that a judge may count as a skipped test or as its own failure."""

from sandbox.probes.probe import Group, ProbeClass, make_body_probe

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
    why="The judge excludes skipped tests, and tests that it reports as internal errors, from the denominator.",
    remedy="Fail every test that did not pass, whatever exception it raised; only the judge's own errors are unknown.",
    source="ours",
    probes=tuple(make_body_probe(name, body) for name, body in _RAISED.items()),
)
