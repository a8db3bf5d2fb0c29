"""Concurrent scoring of completions while the trainer keeps sampling.

    with AsyncRewards(reward) as rewards:
        futures = [rewards.submit(completion, task) for completion, task in arriving]

The sandbox may have any backend; no thread holds the GIL while it waits.
"""

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, InvalidStateError
from dataclasses import dataclass

from rewards.argument_checks import check_callable, check_int, check_number
from rewards.reward import SCORING_TIMEOUT, Completion, Reward, RewardCallable, Task
from sandbox.closeable import Closeable

_MAX_CONCURRENT = 64  # several per worker, since threads with identical programs share one judgement
_MAX_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class _ScoringRequest:
    completion: Completion
    task: Task
    future: Future[Reward]


class AsyncRewards(Closeable):
    """A thread pool that scores completions.

    reward           the reward, which all threads call
    max_concurrent   maximum number of completions to score concurrently; for a cluster or a service, about three times
                     the number of its workers
    timeout_seconds  maximum time from submit() to the reward; then the reward is unknown, with the verdict `late`

    Every future completes: with the reward, its exception, the verdict `late`, or CancelledError after close().
    """

    def __init__(
        self, reward: RewardCallable, *, max_concurrent: int = _MAX_CONCURRENT, timeout_seconds: float = _MAX_SECONDS
    ) -> None:
        check_callable("reward", reward, "CodeReward(box)")
        check_int("max_concurrent", max_concurrent)
        check_number("timeout_seconds", timeout_seconds, above=0)
        self._reward = reward
        self._max_concurrent = max_concurrent
        self._timeout_seconds = timeout_seconds
        self._requests: queue.SimpleQueue[_ScoringRequest | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._open_futures: deque[tuple[float, Future[Reward]]] = deque()  # (deadline, future), the next deadline first
        self._n_threads = 0
        self._closed = False
        _start_thread(self._expire_futures)

    def submit(self, completion: Completion, task: Task) -> "Future[Reward]":
        """Enqueue a completion, and return a future of its reward. The future cannot be cancelled.

        Raises RuntimeError after close().
        """
        future: Future[Reward] = Future()
        future.set_running_or_notify_cancel()
        with self._changed:
            if self._closed:
                raise RuntimeError("this AsyncRewards is closed")
            while self._open_futures and self._open_futures[0][1].done():
                self._open_futures.popleft()
            self._open_futures.append((time.monotonic() + self._timeout_seconds, future))
            self._requests.put(_ScoringRequest(completion, task, future))
            if self._n_threads < self._max_concurrent:
                self._n_threads += 1
                _start_thread(self._score_requests)
            self._changed.notify()
        return future

    def close(self) -> None:
        """Complete every open future with CancelledError, without waiting for rewards in progress."""
        with self._changed:
            self._closed = True
            open_futures, self._open_futures = self._open_futures, deque()
            for _ in range(self._n_threads):
                self._requests.put(None)
            self._changed.notify()
        for _, future in open_futures:
            _complete(future, CancelledError("this AsyncRewards was closed"))

    def _score_requests(self) -> None:
        while (request := self._requests.get()) is not None:
            if not request.future.done():
                try:
                    _complete(request.future, self._reward(request.completion, request.task))
                except BaseException as error:
                    _complete(request.future, error)
            # While the thread waits, it must not keep a large completion in memory.
            del request

    def _expire_futures(self) -> None:
        while True:
            with self._changed:
                if self._closed:
                    return
                remaining_seconds = self._open_futures[0][0] - time.monotonic() if self._open_futures else None
                if remaining_seconds is None or remaining_seconds > 0:
                    self._changed.wait(remaining_seconds)
                    continue
                _, future = self._open_futures.popleft()
            _complete(
                future,
                Reward(None, SCORING_TIMEOUT, self._timeout_seconds, f"no reward within {self._timeout_seconds:g} s"),
            )


def _start_thread(run: Callable[[], None]) -> None:
    # A daemon thread, so that a reward that hangs does not block the exit of the process.
    threading.Thread(target=run, daemon=True, name="rewards").start()


def _complete(future: "Future[Reward]", outcome: Reward | BaseException) -> None:
    # The future may have expired, or `close` may have completed it.
    with contextlib.suppress(InvalidStateError):
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
