"""Workers that the sandboxes of one test process share: they start once for each number of workers and seed.

A fixture of a conftest.py calls `shared_workers()`. While it is entered, `Sandbox(...)` takes workers that an earlier
sandbox of this process has used, if there are such. It shares nothing with packages or on other backends.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sandbox import backends, machine
from sandbox.backends import Backend
from sandbox.concurrency.cancellation import CancelToken
from sandbox.concurrency.thread_map import map_results
from sandbox.errors import SandboxError
from sandbox.request import Request, Response

_MAX_IDLE = 4  # sets of workers that are kept

_idle: dict[tuple[Any, ...], Backend] = {}
_start = backends.start


class _Borrowed:
    """A backend that gives its workers back when it is closed."""

    def __init__(self, key: tuple[Any, ...], lender: Backend) -> None:
        self._key, self._lender, self._closed = key, lender, False
        self.workers, self.layers, self.packages = lender.workers, lender.layers, lender.packages

    def execute(self, request: Request[Response], cancellation: CancelToken | None = None) -> Response:
        if self._closed:
            raise SandboxError("this Sandbox is closed")
        return self._lender.execute(request, cancellation)

    def submit(self, request: Request[Response], done: Callable[[Any], object]) -> Callable[[], None]:
        return self._lender.submit(request, done)

    def execute_many(self, requests: Iterable[Request[Response]]) -> Iterator[tuple[int, Response | Exception]]:
        return map_results(self.execute, requests, threads=self.workers)

    def close(self) -> None:
        if self._closed or self._key[0] != os.getpid():
            return
        self._closed = True
        if self._key in _idle:  # another sandbox with the same options was open at the same time
            self._lender.close()
            return
        _idle[self._key] = self._lender
        if len(_idle) > _MAX_IDLE:
            _idle.pop(next(iter(_idle))).close()


def _borrow(name: str, *, workers: int | None, isolation: str, seed: int | None, **options: Any) -> Backend:
    if name != "local" or options:
        return _start(name, workers=workers, isolation=isolation, seed=seed, **options)
    key = os.getpid(), workers or machine.count_cpus(), isolation, seed
    lender = _idle.pop(key, None) or _start(name, workers=workers, isolation=isolation, seed=seed)
    return _Borrowed(key, lender)


@contextmanager
def shared_workers() -> Iterator[None]:
    """Let the sandboxes that are opened meanwhile share workers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backends, "start", _borrow)
        yield


@pytest.fixture(scope="module", autouse=True)
def _shared_workers() -> Iterator[None]:
    """Share workers in the tests of a folder whose conftest imports this."""
    with shared_workers():
        yield
