import threading

import pytest

from sandbox.concurrency.prefetch import prefetch


def test_items_come_in_order():
    with prefetch(range(1000), 3) as items:
        assert list(items) == list(range(1000))


def test_only_a_limited_number_is_produced_ahead():
    made = []
    full = threading.Event()

    def numbers():
        for n in range(100):
            made.append(n)
            if len(made) == 5:
                full.set()
            yield n

    with prefetch(numbers(), 4) as items:
        assert full.wait(30)
        assert len(made) == 5  # four that wait, and the one that has no place yet
        assert list(items) == list(range(100))


def test_an_error_comes_after_the_items_before_it():
    def broken():
        yield 1
        raise KeyError("broken")

    with prefetch(broken(), 4) as items:
        assert next(items) == 1
        with pytest.raises(KeyError, match="broken"):
            next(items)


def test_leaving_early_ends_the_iterator():
    ended = threading.Event()

    def endless():
        try:
            while True:
                yield 1
        finally:
            ended.set()

    with prefetch(endless(), 4) as items:
        next(items)
    assert ended.wait(30)


def test_an_overdue_call_is_not_waited_for():
    stuck = threading.Event()

    def items():
        yield 1
        stuck.wait(60)
        yield 2

    with prefetch(items(), 2, timeout_seconds=0.05) as taken:
        assert next(taken) == 1
        with pytest.raises(TimeoutError, match=r"timed out: no item arrived for 0\.05 s"):
            next(taken)
        stuck.set()
