"""A result is computed once and shared."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sandbox.concurrency.single_flight import SingleFlightCache


def test_results_are_computed_once_and_the_latest_are_remembered():
    once, made = SingleFlightCache(2), []

    def get(key):
        return once.get(key, lambda: made.append(key) or key, lambda result: True)

    assert [get(key) for key in "abababcba"] == list("abababcba")
    assert made == ["a", "b", "c", "a"]


def test_a_result_that_is_not_kept_reaches_its_waiters_and_is_computed_anew_later():
    once, begun, go_on, made = SingleFlightCache(9), threading.Event(), threading.Event(), []

    def make():
        made.append(1)
        begun.set()
        go_on.wait(60)
        return None

    def get(_):
        return once.get("key", make, lambda result: result is not None)

    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(get, 0)
        begun.wait(60)
        others = [threads.submit(get, n) for n in range(3)]
        go_on.set()
        assert [future.result(60) for future in [first, *others]] == [None] * 4
    before = len(made)
    get(0)
    assert len(made) == before + 1


def test_an_exception_is_not_remembered():
    once = SingleFlightCache(9)
    with pytest.raises(ZeroDivisionError):
        once.get("key", lambda: 1 / 0, lambda result: True)
    assert once.get("key", lambda: 3, lambda result: True) == 3
