"""Processes that compare mathematical answers (see comparison_process.py), and that may be killed at any time.

They are confined (see isolation.py). What they send is read only as words.
"""

import contextlib
import json
import logging
import os
import queue
import select
import signal
import subprocess
import sys
import time
import weakref
from collections import OrderedDict
from enum import Enum
from pathlib import Path

from rewards.errors import CheckerLost

__all__ = ["AnswerComparer", "ComparisonResult"]

log = logging.getLogger(__name__)

_CHILD = Path(__file__).with_name("comparison_process.py")
_IMPORT_ROOT = Path(__file__).parents[2]
_START_SECONDS = 120.0
_RESPONSE_TIMEOUT_SECONDS = 120.0  # wall time for an answer: many times the CPU seconds that a comparison may take
_QUEUE_SECONDS = 1800.0  # how long a comparison may wait for a free process
_ATTEMPTS = 3  # attempts at a comparison whose process dies; one that exceeds its time is not repeated
_SHUTDOWN_SECONDS = 10.0
_MAX_LINE = 200  # bytes
# Signals that end a comparison because of the answers in it: their CPU time, or a crash of the parser.
_CAUSED_BY_ANSWERS = (signal.SIGPROF, signal.SIGXCPU, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS)
_TRIVIAL = "1"  # an answer that takes no time: a comparison that is too slow even with this one is slow on its own
_CACHE_SIZE = 1000  # expected answers for which a comparison was too slow, so that each is examined only once


class ComparisonResult(Enum):
    RIGHT = "right"
    WRONG = "wrong"
    TOO_SLOW = "too_slow"  # because of the given answer
    UNREADABLE = "unreadable"  # the expected answer cannot be read, or not in time, and the given one is another text
    EXPECTED_TOO_SLOW = "expected_too_slow"  # only within this module: `AnswerComparer.compare` never returns it


class AnswerComparer:
    """Compares answers in at most `processes` processes, started on first use. Any number of threads may use it."""

    def __init__(self, processes: int) -> None:
        self._free: queue.LifoQueue[_Child | None] = queue.LifoQueue()  # None: a process that is not started yet
        for _ in range(processes):
            self._free.put(None)
        self._is_slow: OrderedDict[str, bool] = OrderedDict()  # by expected answer: whether it is slow on its own
        self._close = weakref.finalize(self, _end_all, self._free)

    def compare(self, expected: str, given: str) -> ComparisonResult:
        """Compare two answers in LaTeX. Raises CheckerLost if its processes die or hang repeatedly."""
        if self._is_slow.get(expected):
            return _as_text(expected, given)
        comparison = self._compare_in_child(expected, given)
        if comparison is ComparisonResult.TOO_SLOW and expected not in self._is_slow:
            self._note(expected, self._compare_in_child(expected, _TRIVIAL) is ComparisonResult.TOO_SLOW)
        elif comparison is ComparisonResult.EXPECTED_TOO_SLOW:
            self._note(expected, True)
        if self._is_slow.get(expected):
            return _as_text(expected, given)
        return comparison

    def close(self) -> None:
        """End the idle processes. Those at work end with their comparison, or with this process."""
        self._close()

    def _note(self, expected: str, slow: bool) -> None:
        self._is_slow[expected] = slow
        if len(self._is_slow) > _CACHE_SIZE:
            with contextlib.suppress(KeyError):  # another thread was first
                self._is_slow.popitem(last=False)

    def _compare_in_child(self, expected: str, given: str) -> ComparisonResult:
        try:
            child = self._free.get(timeout=_QUEUE_SECONDS)
        except queue.Empty:
            raise CheckerLost(f"no process was free within {_QUEUE_SECONDS:g} s") from None
        reason = ""
        try:
            for _ in range(_ATTEMPTS):
                try:
                    child = child or _Child()
                    return child.compare(expected, given)
                except CheckerLost as error:
                    reason = str(error)
                    if child is not None:
                        child.end()
                        child = None
                except BaseException:
                    if child is not None:  # interrupted: its answer may still come, and would be taken for the next
                        child.end()
                    raise
            raise CheckerLost(reason)
        finally:
            self._free.put(child if child is not None and child.alive else None)


def _as_text(expected: str, given: str) -> ComparisonResult:
    return ComparisonResult.RIGHT if expected == given else ComparisonResult.UNREADABLE


class _Child:
    """One process that compares. Raises CheckerLost if it does not start."""

    def __init__(self) -> None:
        self.alive = True
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-B", str(_CHILD), json.dumps([str(_IMPORT_ROOT), *sys.path])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={},
            cwd="/",
        )
        try:
            word, *missing = (self._read_line(_START_SECONDS) or "").split() or [""]
            if word != "ready":
                raise CheckerLost("the process that compares answers did not start; is math-verify installed?")
            if missing:
                log.warning("mathematical answers are compared without isolation of %s", " and ".join(missing))
        except BaseException:
            self.end()
            raise

    def compare(self, expected: str, given: str) -> ComparisonResult:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps([expected, given]).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise CheckerLost(f"the process that compares answers is gone: {error}") from None
        lines: list[str] = []
        while not (lines and lines[-1].startswith("end ")):
            line = self._read_line(_RESPONSE_TIMEOUT_SECONDS)
            if line is None:
                raise CheckerLost(f"the process that compares answers ended after {lines}")
            if len(lines) > 2:
                raise CheckerLost(f"the process that compares answers sent more than it should: {lines}")
            lines.append(line)
        *words, end = lines
        status = end.removeprefix("end ")
        return _comparison(words, int(status) if status.lstrip("-").isdigit() else -signal.SIGKILL)

    def end(self) -> None:
        self.alive = False
        self._process.kill()
        self._process.wait(_SHUTDOWN_SECONDS)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):  # closing flushes what was not sent
                pipe.close()

    def _read_line(self, seconds: float) -> str | None:
        """Return the next line, or None if the process has ended. Raises CheckerLost if nothing comes in time."""
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        arrival = select.poll()  # not select(), which fails if a trainer has more than 1024 descriptors open
        arrival.register(fd, select.POLLIN)
        end = time.monotonic() + seconds
        line = b""
        while not line.endswith(b"\n"):
            remaining_seconds = end - time.monotonic()
            if remaining_seconds <= 0 or not arrival.poll(remaining_seconds * 1000):
                raise CheckerLost(f"timed out: the process that compares answers sent nothing for {seconds:g} s")
            byte = os.read(fd, 1)  # a single one, so that the next line stays in the pipe
            if not byte:
                return None
            line += byte
            if len(line) > _MAX_LINE:
                raise CheckerLost(f"the process that compares answers sent a line of more than {_MAX_LINE} bytes")
        return line.decode("ascii", "replace").strip()


def _comparison(words: list[str], status: int) -> ComparisonResult:
    """Return what a comparison showed.

    words    what its process sent: "read" or "unreadable", then "right" or "wrong", as far as it got
    status   how the process ended: its exit status, or minus the signal that killed it
    """
    if words[1:] == ["right"]:
        return ComparisonResult.RIGHT
    if len(words) < 2 and status <= 0 and -status not in _CAUSED_BY_ANSWERS:
        raise CheckerLost(f"a comparison ended with status {status}")
    if not words:
        return ComparisonResult.EXPECTED_TOO_SLOW
    if words[0] != "read":
        return ComparisonResult.UNREADABLE
    return ComparisonResult.WRONG if words[1:] == ["wrong"] or status > 0 else ComparisonResult.TOO_SLOW


def _end_all(free: "queue.LifoQueue[_Child | None]") -> None:
    with contextlib.suppress(queue.Empty):
        while True:
            child = free.get_nowait()
            if child is not None:
                child.end()
