"""Work on a stream of items goes on in a sandbox that fails now and then."""

from itertools import count, islice
from types import SimpleNamespace

import pytest

from curate.errors import CurateError
from curate.judging import FAILURES_IN_A_ROW, map_with_retries
from sandbox import SandboxError

ONE_WORKER = SimpleNamespace(workers=1)


def failing(times):
    """Return a function that doubles numbers, but fails at each number in `times` as often as stated there."""
    left = dict(times)

    def work(number):
        if left.get(number):
            left[number] -= 1
            raise SandboxError("a worker died")
        return 2 * number

    return work


def test_every_item_comes_with_its_result():
    assert sorted(map_with_retries(range(20), failing({}), ONE_WORKER)) == [(n, 2 * n) for n in range(20)]


def test_none_is_an_item_like_any_other():
    assert list(map_with_retries([None], lambda item: "done", ONE_WORKER)) == [(None, "done")]


def test_items_at_which_the_sandbox_failed_are_tried_again_after_all_others():
    results = list(map_with_retries(range(10), failing({0: 1, 5: 2}), ONE_WORKER))
    assert sorted(results) == [(n, 2 * n) for n in range(10)]
    assert [n for n, _ in results[8:]] == [0, 5]


def test_failures_with_results_in_between_do_not_add_up():
    assert len(list(map_with_retries(range(0, 40), failing({n: 1 for n in range(0, 40, 8)}), ONE_WORKER))) == 40


def test_a_sandbox_that_fails_again_and_again_ends_the_work_and_says_what_to_type():
    with pytest.raises(CurateError, match=r"3 times in a row: a worker died.*saved.*curate doctor.*same command"):
        list(map_with_retries([7], failing({7: FAILURES_IN_A_ROW}), ONE_WORKER))


def test_other_exceptions_of_the_work_are_not_tried_again():
    with pytest.raises(ZeroDivisionError):
        list(map_with_retries([0], lambda item: 1 // item, ONE_WORKER))


def test_items_are_read_only_a_little_ahead():
    read = count()
    assert len(list(islice(map_with_retries(read, failing({}), ONE_WORKER), 3))) == 3
    assert next(read) < 20
