"""Items are worked on in threads, and only a little ahead of the results."""

import gc
import itertools
import threading
import weakref

import pytest

from sandbox.concurrency.thread_map import map_results


def test_each_item_gives_its_result_or_its_exception() -> None:
    found = dict(map_results(lambda n: 12 // n, range(5), threads=3))
    assert isinstance(found.pop(0), ZeroDivisionError)
    assert found == {1: 12, 2: 6, 3: 4, 4: 3}
    assert list(map_results(abs, [], threads=3)) == []


def test_items_are_read_a_little_ahead_and_no_thread_is_left() -> None:
    before = set(threading.enumerate())
    items = itertools.count()
    results = map_results(abs, items, threads=4)
    assert {next(results)[0] for _ in range(100)} <= set(range(110))
    results.close()  # type: ignore[attr-defined]
    assert next(items) < 110
    for thread in threading.enumerate():
        if thread.name == "map_results":
            thread.join(60)
    assert set(threading.enumerate()) <= before


def test_there_are_no_more_threads_than_items() -> None:
    before = threading.active_count()
    assert max(count for _, count in map_results(lambda _: threading.active_count(), "ab", threads=50)) <= before + 2


def test_results_arrive_as_they_finish() -> None:
    late = threading.Event()
    results = map_results(lambda wait: wait and late.wait(60), [True, False, False], threads=2)
    assert [next(results)[0], next(results)[0]] == [1, 2]
    late.set()
    assert next(results) == (0, True)


def test_an_interrupt_of_the_function_is_raised() -> None:
    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(map_results(interrupted, [1, 2, 3], threads=2))


def test_what_has_been_yielded_is_not_kept() -> None:
    class Large: ...

    results = map_results(lambda _: Large(), itertools.count(), threads=1)
    kept = weakref.ref(next(results)[1])
    next(results), next(results)
    gc.collect()
    assert kept() is None
    results.close()  # type: ignore[attr-defined]
