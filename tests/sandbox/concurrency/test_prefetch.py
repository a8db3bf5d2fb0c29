import threading

import pytest

from sandbox.concurrency.prefetch import ahead


def test_items_come_in_order():
    with ahead(range(1000), 3) as items:
        assert list(items) == list(range(1000))


def test_only_so_many_are_made_before_the_first_is_taken():
    made = []
    full = threading.Event()

    def numbers():
        for n in range(100):
            made.append(n)
            if len(made) == 5:
                full.set()
            yield n

    with ahead(numbers(), 4) as items:
        assert full.wait(30)
        assert len(made) == 5  # four that wait, and the one that has no place yet
        assert list(items) == list(range(100))


def test_an_error_comes_after_the_items_before_it():
    def broken():
        yield 1
        raise KeyError("broken")

    with ahead(broken(), 4) as items:
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

    with ahead(endless(), 4) as items:
        next(items)
    assert ended.wait(30)


def test_what_does_not_come_in_time_is_not_waited_for():
    stuck = threading.Event()

    def items():
        yield 1
        stuck.wait(60)
        yield 2

    with ahead(items(), 2, seconds=0.05) as taken:
        assert next(taken) == 1
        with pytest.raises(TimeoutError, match=r"nothing came for 0\.05 seconds"):
            next(taken)
        stuck.set()
