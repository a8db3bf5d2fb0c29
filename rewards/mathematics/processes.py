"""Processes that compare answers of mathematics (child.py), and may be killed.

They are confined (math_isolation.py), and what comes from them is read as words and nothing else.
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

log = logging.getLogger(__name__)

_CHILD = Path(__file__).with_name("child.py")
_START_SECONDS = 120.0
_ANSWER_SECONDS = 120.0  # of wall time, many times the CPU seconds that a comparison may take
_QUEUE_SECONDS = 1800.0  # that one may wait for a free process
_ATTEMPTS = 3  # at a comparison whose process dies; one that runs out of time is not repeated
_GOODBYE_SECONDS = 10.0
_LONGEST_WORD = 200  # letters
_OF_THE_ANSWER = (signal.SIGPROF, signal.SIGXCPU, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS)  # it made the end
_TRIVIAL = "1"  # an answer that takes no time; what is too slow even for it is so by itself
_REMEMBERED = 1000  # expected answers that something was too slow for, so that each is looked into once


class Comparison(Enum):
    RIGHT = "right"
    WRONG = "wrong"
    TOO_SLOW = "too_slow"  # because of the given answer
    UNREADABLE = "unreadable"  # the expected one cannot be read, or not in time, and the given one is not the same text

    EXPECTED_TOO_SLOW = "expected_too_slow"  # within this module alone


class CheckerLost(Exception):
    """Processes died or hung, for reasons other than their limits; nothing is known of the answer."""


class Comparer:
    """Compares in at most `processes` processes at once, started when first needed. For any number of threads."""

    def __init__(self, processes: int) -> None:
        self._free: queue.LifoQueue[_Child | None] = queue.LifoQueue()
        for _ in range(processes):
            self._free.put(None)
        self._slow: OrderedDict[str, bool] = OrderedDict()  # expected answers; whether they are slow by themselves
        self._end = weakref.finalize(self, _end_all, self._free)

    def compare(self, expected: str, given: str) -> Comparison:
        """Raises CheckerLost."""
        if self._slow.get(expected):
            return Comparison.RIGHT if expected == given else Comparison.UNREADABLE
        comparison = self._compared(expected, given)
        if comparison is Comparison.TOO_SLOW and expected not in self._slow:
            self._note(expected, self._compared(expected, _TRIVIAL) is Comparison.TOO_SLOW)
        elif comparison is Comparison.EXPECTED_TOO_SLOW:
            self._note(expected, True)
        if self._slow.get(expected):
            return Comparison.RIGHT if expected == given else Comparison.UNREADABLE
        return comparison

    def _note(self, expected: str, slow: bool) -> None:
        self._slow[expected] = slow
        if len(self._slow) > _REMEMBERED:
            with contextlib.suppress(KeyError):  # another thread was first
                self._slow.popitem(last=False)

    def _compared(self, expected: str, given: str) -> Comparison:
        try:
            child = self._free.get(timeout=_QUEUE_SECONDS)
        except queue.Empty:
            raise CheckerLost(f"no process was free within {_QUEUE_SECONDS:g} s") from None
        words = ""
        try:
            for _ in range(_ATTEMPTS):
                try:
                    child = child or _Child()
                    return child.compare(expected, given)
                except CheckerLost as error:
                    words = str(error)
                    if child is not None:
                        child.end()
                        child = None
                except BaseException:
                    if child is not None:  # interrupted: an answer may still come, and would answer the next question
                        child.end()
                    raise
            raise CheckerLost(words)
        finally:
            self._free.put(child if child is not None and child.alive else None)

    def close(self) -> None:
        """End the processes that are idle; those at work end with the comparison, or with us."""
        self._end()


class _Child:
    """Raises CheckerLost if it does not start."""

    def __init__(self) -> None:
        self.alive = True
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-B", str(_CHILD), json.dumps([str(_CHILD.parents[2]), *sys.path])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={},
            cwd="/",
        )
        try:
            word, *missing = (self._word(_START_SECONDS) or "").split() or [""]
            if word != "ready":
                raise CheckerLost("the process that compares answers did not start; is math-verify installed?")
            if missing:
                log.warning("answers of mathematics are compared without isolation of %s", " and ".join(missing))
        except BaseException:
            self.end()
            raise

    def compare(self, expected: str, given: str) -> Comparison:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps([expected, given]).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise CheckerLost(f"the process that compares answers is gone: {error}") from None
        said: list[str] = []
        while not (said and said[-1].startswith("end ")):
            word = self._word(_ANSWER_SECONDS)
            if word is None or len(said) > 2:
                raise CheckerLost(f"the process that compares answers ended, or said {said}")
            said.append(word)
        *words, end = said
        if words[1:] == ["right"]:
            return Comparison.RIGHT
        status = int(end.split()[1]) if end[4:].lstrip("-").isdigit() else -signal.SIGKILL
        if len(words) < 2 and status <= 0 and -status not in _OF_THE_ANSWER:
            raise CheckerLost(f"a comparison ended with status {status}")
        if not words:
            return Comparison.EXPECTED_TOO_SLOW
        if words[0] != "read":
            return Comparison.UNREADABLE
        return Comparison.WRONG if words[1:] == ["wrong"] or status > 0 else Comparison.TOO_SLOW

    def end(self) -> None:
        self.alive = False
        self._process.kill()
        self._process.wait(_GOODBYE_SECONDS)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):  # what was not sent
                pipe.close()

    def _word(self, seconds: float) -> str | None:
        """The next line; None if the process has ended. Raises CheckerLost if nothing comes."""
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        arrival = select.poll()  # not select(): a trainer may have more descriptors open than that takes
        arrival.register(fd, select.POLLIN)
        end = time.monotonic() + seconds
        word = b""
        while not word.endswith(b"\n"):
            left = end - time.monotonic()
            if left <= 0 or not arrival.poll(left * 1000):
                raise CheckerLost(f"the process that compares answers said nothing for {seconds:g} s")
            letter = os.read(fd, 1)  # one, so that the next word stays there
            if not letter:
                return None
            word += letter
            if len(word) > _LONGEST_WORD:
                raise CheckerLost("the process that compares answers says what is no word")
        return word.decode("ascii", "replace").strip()


def _end_all(free: "queue.LifoQueue[_Child | None]") -> None:
    with contextlib.suppress(queue.Empty):
        while True:
            child = free.get_nowait()
            if child is not None:
                child.end()
