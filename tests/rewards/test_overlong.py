"""Answers near the length limit get a soft penalty."""

import pytest
from answers import text_answer
from hypothesis import given
from hypothesis import strategies as st

from rewards.form import OverlongPenalty
from rewards.reward import Completion, Task


@pytest.mark.parametrize(
    ("length", "value", "verdict"),
    [
        (0, 0.0, "short"),
        (60, 0.0, "short"),
        (61, -0.025, "long"),
        (80, -0.5, "long"),
        (100, -1.0, "long"),
        (101, -1.0, "long"),
        (9999, -1.0, "long"),
    ],
)
def test_the_punishment_grows_from_the_beginning_of_the_buffer_to_the_limit(length, value, verdict):
    reward = OverlongPenalty(40)(text_answer("", length), Task(max_tokens=100))
    assert (reward.value, reward.verdict) == (pytest.approx(value), verdict)


@given(st.integers(0, 200_000), st.integers(2, 100_000), st.data())
def test_the_punishment_follows_the_papers_formula(length, max_tokens, data):
    buffer = data.draw(st.integers(1, max_tokens - 1))
    if length <= max_tokens - buffer:
        expected = 0.0
    elif length <= max_tokens:
        expected = ((max_tokens - buffer) - length) / buffer
    else:
        expected = -1.0
    reward = OverlongPenalty(buffer)(text_answer("", length), Task(max_tokens=max_tokens))
    assert reward.value == pytest.approx(expected)


def test_a_buffer_that_cannot_work_is_refused():
    with pytest.raises(ValueError, match="max_tokens"):
        OverlongPenalty()(text_answer(""), Task())
    with pytest.raises(ValueError, match="smaller"):
        OverlongPenalty(100)(text_answer(""), Task(max_tokens=100))
    with pytest.raises(ValueError, match="at least 1"):
        OverlongPenalty(0)


def test_an_answer_of_negative_length_is_refused():
    with pytest.raises(ValueError, match="at least 0"):
        Completion("", -1)
