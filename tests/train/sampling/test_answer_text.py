"""Answers that continue a prompt keep the space between both, and end before the stop that is complete first."""

import pytest

from train.sampling.protocol import SampledCompletion
from train.sampling.text import restore_continuation_text, truncate_at_stop

WORDS = {1: "▁def", 2: "▁f():", 3: "\n", 4: "▁▁▁", 5: "▁return", 6: "▁1", 7: "▁two"}


def sentencepiece(ids):
    """Decode as tokenizers of the SentencePiece kind do: the space before the first word is left out."""
    return "".join(WORDS[id] for id in ids).replace("▁", " ").removeprefix(" ")


def answer(*ids):
    return SampledCompletion(sentencepiece(ids), "stop", len(ids), (1, 2, 3), ids)


def test_the_first_line_keeps_its_indentation_where_the_answer_continues_a_text():
    drawn = answer(4, 5, 6, 3, 4, 5)
    assert drawn.text == "   return 1\n    return"
    for prompt in ("def f():\n", [{"role": "assistant", "content": "def f():\n"}]):
        assert restore_continuation_text(prompt, drawn, (), sentencepiece).text == "    return 1\n    return"
        assert restore_continuation_text(prompt, drawn, ("\n",), sentencepiece).text == "    return 1"


@pytest.mark.parametrize("prompt", [(1, 2, 3), [{"role": "user", "content": "Go."}]], ids=["ids", "chat"])
def test_other_answers_are_as_they_were(prompt):
    assert restore_continuation_text(prompt, answer(4, 5), (), sentencepiece) == answer(4, 5)


@pytest.mark.parametrize(
    ("stops", "text"),
    [
        pytest.param((), "abcdef", id="none"),
        pytest.param(("x",), "abcdef", id="not-found"),
        pytest.param(("e", "c"), "ab", id="the-first-in-the-text"),
        pytest.param(("bcdef", "d"), "abc", id="the-first-that-is-complete"),
        pytest.param(("a",), "", id="at-once"),
    ],
)
def test_a_text_ends_before_the_stop_that_is_complete_first(stops, text):
    assert truncate_at_stop("abcdef", stops) == text
