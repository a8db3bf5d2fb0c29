"""Extra inputs keep the shape of the inputs from which they are made."""

import json

import pytest

from curate.strength.extra_inputs import generate_extra_inputs
from sandbox import Case, Suite

LISTS = ["4\n10 90 -3 40\nabc x\n", "2\n7 30\nqq yy\n", "3\n50 60 70\nab cd\n"]
CALLS = ['[[1, 5, 9], "abc", 3]', '[[2, 4], "xy", 2]']


def suite(inputs, entry_point=None):
    return Suite([Case(text, "") for text in inputs], entry_point=entry_point)


@pytest.fixture(scope="module")
def of_lists():
    return generate_extra_inputs(suite(LISTS), seed=0, max_count=200)


@pytest.fixture(scope="module")
def of_calls():
    return [json.loads(text) for text in generate_extra_inputs(suite(CALLS, "f"), seed=0, max_count=200)]


def test_there_are_as_many_lines_and_words_as_before(of_lists):
    def shape(text):
        return [len(line.split(" ")) for line in text.split("\n")]

    assert {tuple(shape(text)) for text in of_lists} == {tuple(shape(text)) for text in LISTS}


def test_numbers_stay_between_the_smallest_and_the_largest_of_their_line(of_lists):
    numbers = {int(word) for text in of_lists for word in text.split("\n")[1].split()}
    assert min(numbers) == -3
    assert max(numbers) == 90
    assert len(numbers) > 15


def test_tests_without_variety_still_give_other_inputs():
    inputs = generate_extra_inputs(suite(["3\n70 70 70\n"]), seed=0)
    assert len({word for text in inputs for word in text.split()[1:]}) > 10
    assert all(1 <= int(word) <= 70 for text in inputs for word in text.split())


def test_a_number_that_states_a_length_is_not_changed(of_lists):
    assert all(int(text.split("\n")[0]) == len(text.split("\n")[1].split()) for text in of_lists)


def test_words_keep_their_letters(of_lists):
    assert {letter for text in of_lists for letter in text.split("\n")[2] if letter != " "} <= set("abcdxqy")


def test_a_row_of_zeros_and_ones_keeps_only_zeros_and_ones():
    inputs = generate_extra_inputs(suite(["11001\n", "00110\n"]), seed=0)
    assert inputs
    assert {letter for text in inputs for letter in text.strip()} == {"0", "1"}


def test_arguments_keep_their_types_and_lengths(of_calls):
    def shape(value):
        return [shape(item) for item in value] if isinstance(value, list) else (type(value), len(str(value)))

    assert {str(shape(call)) for call in of_calls} <= {str(shape(json.loads(text))) for text in CALLS}
    assert len({call[1] for call in of_calls}) > 3


def test_no_input_repeats_that_of_a_test_or_another_one(of_lists):
    assert len(set(of_lists)) == len(of_lists) > 50
    assert not set(of_lists) & set(LISTS)


def test_the_same_tests_and_seed_give_the_same_inputs():
    assert generate_extra_inputs(suite(LISTS), seed=0) == generate_extra_inputs(suite(LISTS), seed=0)
    assert generate_extra_inputs(suite(LISTS), seed=0) != generate_extra_inputs(suite(LISTS), seed=1)


def test_there_are_no_more_inputs_than_requested():
    assert len(generate_extra_inputs(suite(LISTS), seed=0, max_count=7)) == 7


@pytest.mark.parametrize(
    ("inputs", "entry_point"),
    [
        pytest.param([""], None, id="no input"),
        pytest.param(["\n\n"], None, id="blank lines"),
        pytest.param(["2\n2\n"], None, id="counts only"),
        pytest.param(["[]"], "f", id="no arguments"),
        pytest.param(['[null, {"a": 1}]'], "f", id="nothing to change"),
        pytest.param(["5 " * 20_000], None, id="too long"),
    ],
)
def test_inputs_that_cannot_be_changed_give_no_extra_inputs(inputs, entry_point):
    assert generate_extra_inputs(suite(inputs, entry_point), seed=0) == []


def test_a_word_that_a_change_has_made_a_number_may_change_again():
    """`a2` can become `22`, and no line of the tests has numbers from which a range could come."""
    for seed in range(20):
        assert "a2\n" not in generate_extra_inputs(suite(["a2\n"]), seed=seed)
