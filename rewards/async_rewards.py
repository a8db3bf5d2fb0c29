"""Scores completions as they arrive: what the trainer's sampler has finished is judged while it goes on sampling.

    with AsyncRewards(reward) as rewards:
        futures = [rewards.submit(answer, task) for answer, task in arriving]

Where programs run is the reward's affair: CodeReward(Sandbox()), Sandbox(backend="ray", address=...) and
Sandbox(backend="http", url=...) are all asked from the threads here, and none of them holds the interpreter while it
waits. A program runs in a process that was started from a fresh interpreter, so nothing of torch is in it, whatever
this process has imported.
"""

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, InvalidStateError
from types import TracebackType
from typing import Self

from rewards.reward import LATE, Answer, Reward, Score, Task

_AT_ONCE = 64  # a few for each worker: identical programs wait for each other, and a free worker finds its next here
_LONGEST_SECONDS = 3600.0


class AsyncRewards:
    """Threads that score.

    reward           called by all of them
    at_once          completions scored at once; for a cluster or a service about three times its workers
    longest_seconds  from submit() until there is a reward. After that the verdict is `late`, with no value, and
                     what comes later is dropped

    Every future ends: with the reward or what it raised, late, or with CancelledError when this is closed.
    """

    def __init__(self, reward: Score, *, at_once: int = _AT_ONCE, longest_seconds: float = _LONGEST_SECONDS) -> None:
        if at_once < 1:
            raise ValueError(f"at_once must be at least 1, not {at_once}")
        if not longest_seconds > 0:
            raise ValueError(f"longest_seconds must be above 0, not {longest_seconds}")
        self._reward = reward
        self._at_once = at_once
        self._longest_seconds = longest_seconds
        self._waiting: queue.SimpleQueue[tuple[Future[Reward], Answer, Task] | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._open: deque[tuple[float, Future[Reward]]] = deque()  # by the time at which they are late
        self._threads = 0
        self._closed = False
        _start(self._watch)

    def submit(self, answer: Answer, task: Task) -> "Future[Reward]":
        """Never waits. The future cannot be cancelled. Raises RuntimeError once this is closed."""
        future: Future[Reward] = Future()
        future.set_running_or_notify_cancel()
        with self._changed:
            if self._closed:
                raise RuntimeError("these AsyncRewards are closed")
            while self._open and self._open[0][1].done():
                self._open.popleft()
            self._open.append((time.monotonic() + self._longest_seconds, future))
            self._waiting.put((future, answer, task))
            if self._threads < self._at_once:
                self._threads += 1
                _start(self._score)
            self._changed.notify()
        return future

    def close(self) -> None:
        """End what has no reward yet, and return at once: what is being scored is left to itself."""
        with self._changed:
            self._closed = True
            left, self._open = self._open, deque()
            for _ in range(self._threads):
                self._waiting.put(None)
            self._changed.notify()
        for _, future in left:
            _end(future, CancelledError("these AsyncRewards were closed"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _score(self) -> None:
        while (item := self._waiting.get()) is not None:
            future, answer, task = item
            if not future.done():
                try:
                    _end(future, self._reward(answer, task))
                except BaseException as error:
                    _end(future, error)
            del item, future, answer, task  # a thread that waits holds nothing

    def _watch(self) -> None:
        """End what is late."""
        while True:
            with self._changed:
                if self._closed:
                    return
                left_seconds = self._open[0][0] - time.monotonic() if self._open else None
                if left_seconds is None or left_seconds > 0:
                    self._changed.wait(left_seconds)
                    continue
                _, future = self._open.popleft()
            _end(future, Reward(None, LATE, self._longest_seconds, f"no reward within {self._longest_seconds:g} s"))


def _start(run: Callable[[], None]) -> None:
    # A daemon, so that a reward that hangs keeps nobody from ending.
    threading.Thread(target=run, daemon=True, name="rewards").start()


def _end(future: "Future[Reward]", outcome: Reward | BaseException) -> None:
    with contextlib.suppress(InvalidStateError):  # it was late, or this is closed
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
