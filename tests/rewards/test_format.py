"""The form <think>...</think><answer>...</answer> is recognised."""

import pytest
from answers import text_answer
from hypothesis import given
from hypothesis import strategies as st

from rewards.form import FormatReward, is_formatted
from rewards.mathematics import MathReward
from rewards.reward import Task

TAGS = ["<think>", "</think>", "<answer>", "</answer>", "x", " "]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>a</think><answer>b</answer>", True),
        ("\n<think>\na < b\n</think>\n\n<answer>\n```python\nprint(1)\n```\n</answer>\n", True),
        # DeepSeek-R1's template (arXiv 2501.12948, table 1)
        ("<think> reasoning process here </think> <answer> answer here </answer>", True),
        ("a</think><answer>b</answer>", False),
        ("<think>a</think>b", False),
        ("<think>a</think>Here: <answer>b</answer>", False),
        ("<think>a</think><answer>b</answer> Done.", False),
        ("Well: <think>a</think><answer>b</answer>", False),
        ("<think></think><answer>b</answer>", False),
        ("<think>a</think><answer> \n</answer>", False),
        ("<think>a</think><answer>b", False),
        ("<think>I could write <answer>c</answer></think><answer>b</answer>", False),
        ("<think>a</think><think>a</think><answer>b</answer>", False),
        ("<think>a</think><answer>b</answer><answer>c</answer>", False),
        ("<answer>b</answer><think>a</think>", False),
        ("<think><answer>a</think>b</answer>", False),
        ("<THINK>a</THINK><ANSWER>b</ANSWER>", False),
        ("", False),
    ],
)
def test_each_tag_must_occur_once_in_order_and_enclose_text(text, expected):
    assert is_formatted(text) is expected
    assert FormatReward()(text_answer(text), Task()).value == float(expected)


def test_the_arithmetic_example_has_the_form_and_the_right_answer():
    text = "<think>\nMultiplication first: 2 * 6 = 12, and 2 + 12 = 14.\n</think>\n<answer>\n14\n</answer>"
    assert FormatReward()(text_answer(text), Task()).value == 1.0
    assert MathReward()(text_answer(text), Task(expected="14")).value == 1.0
    assert MathReward()(text_answer(text.replace("14", "16")), Task(expected="14")).value == 0.0
    assert FormatReward()(text_answer("2 + 2 * 6 = 14"), Task()).value == 0.0


@given(st.lists(st.sampled_from(TAGS), max_size=9).map("".join))
def test_the_check_agrees_with_a_grammar(text):
    import re

    content = r"(?:(?!</?think>|</?answer>).)*?(?! )(?:(?!</?think>|</?answer>).)+?"
    grammar = rf"\s*<think>\s*{content}</think>\s*<answer>\s*{content}</answer>\s*"
    blank = re.search(r"<(think|answer)>\s*</", text)
    assert is_formatted(text) is bool(re.fullmatch(grammar, text) and not blank)


def test_a_thought_may_begin_in_the_prompt():
    text = "a</think><answer>b</answer>"
    assert FormatReward(opened=True)(text_answer(text), Task()).value == 1.0
    assert FormatReward(opened=True)(text_answer(f"<think>{text}"), Task()).value == 0.0


def test_an_answer_that_was_cut_off_has_its_own_verdict():
    assert FormatReward()(text_answer("<think>a", truncated=True), Task()).verdict == "truncated"
    assert FormatReward()(text_answer("a"), Task()).verdict == "unformatted"


def test_megabytes_of_tags_have_no_form():
    for tag in TAGS:
        assert not is_formatted(tag * 1_000_000)
