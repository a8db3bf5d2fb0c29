"""The form <think>...</think><answer>...</answer>."""

import pytest
from answers import say
from hypothesis import given
from hypothesis import strategies as st

from rewards.format import FormatReward, formatted
from rewards.reward import Task

TAGS = ["<think>", "</think>", "<answer>", "</answer>", "x", " "]


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("<think>a</think><answer>b</answer>", True),
        ("\n<think>\na < b\n</think>\n\n<answer>\n```python\nprint(1)\n```\n</answer>\n", True),
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
def test_the_form_is_each_tag_once_in_order_around_something(text, right):
    assert formatted(text) is right
    assert FormatReward()(say(text), Task()).value == float(right)


@given(st.lists(st.sampled_from(TAGS), max_size=9).map("".join))
def test_it_agrees_with_the_grammar(text):
    import re

    thing = r"(?:(?!</?think>|</?answer>).)*?(?! )(?:(?!</?think>|</?answer>).)+?"
    grammar = rf"\s*<think>\s*{thing}</think>\s*<answer>\s*{thing}</answer>\s*"
    blank = re.search(r"<(think|answer)>\s*</", text)
    assert formatted(text) is bool(re.fullmatch(grammar, text) and not blank)


def test_a_thought_may_begin_in_the_prompt():
    text = "a</think><answer>b</answer>"
    assert FormatReward(opened=True)(say(text), Task()).value == 1.0
    assert FormatReward(opened=True)(say(f"<think>{text}"), Task()).value == 0.0


def test_what_was_cut_off_says_so():
    assert FormatReward()(say("<think>a", truncated=True), Task()).verdict == "truncated"
    assert FormatReward()(say("a"), Task()).verdict == "unformatted"


def test_megabytes_of_tags_have_no_form():
    for tag in TAGS:
        assert not formatted(tag * 1_000_000)
