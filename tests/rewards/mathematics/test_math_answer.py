"""Mathematical answers are found, compared and rewarded, whatever they contain."""

from collections.abc import Iterator

import pytest
from answers import text_answer
from hypothesis import given, settings
from hypothesis import strategies as st
from math_answers import boxed, needs_math_verify

from rewards.async_rewards import AsyncRewards
from rewards.mathematics.reward import MathAnswer, final_answer
from rewards.reward import Task


@pytest.fixture(scope="module")
def reward() -> Iterator[MathAnswer]:
    with MathAnswer(2) as reward:
        yield reward


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{2}", "2"),
        (r"First \boxed{1}, no, \boxed{2}.", "2"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed {2}", "2"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\boxed{2}}", "2"),
        (r"\boxed{$2$}", "2"),
        (r"A set { of \boxed{2}", "2"),
        (r"\boxed{1} \boxed{2", "1"),
        (r"\boxed{2", None),
        (r"\boxed{}", None),
        (r"\boxed2", None),
        (r"\boxed{33.}", "33"),
        (r"\boxed{$33$.}", "33"),
        (r"\boxed{1, 2, ...}", "1, 2, ..."),
        (r"It is \boxed 33.", "33"),
        (r"It is \boxed -0.5", "-0.5"),
        (r"\boxed 12, in the form \boxed answer", "12"),
        (r"\boxed{1} and \boxed 2", "1"),
        ("2", None),
        ("", None),
        (r"<think>\boxed{1}</think>\boxed{2}", "2"),
        (r"<think>\boxed{2}</think>I do not know.", None),
        (r"<think>\boxed{2}", None),
        ("<think>a</think><answer>2</answer>", "2"),
        (r"<think>a</think><answer>It is \boxed{2}.</answer>", "2"),
        ("<answer>1</answer><answer>2</answer>", None),
        ("</answer>2<answer>", None),
    ],
)
def test_the_final_answer_is_the_last_box_after_the_thought(text, answer):
    assert final_answer(text) == answer


@given(st.lists(st.sampled_from([r"\boxed{", "{", "}", r"\{", r"\}", "\\", "x", "$", " "]), max_size=30).map("".join))
def test_the_content_of_a_box_has_balanced_braces(text):
    answer = final_answer(text)
    if answer is not None:
        bare = answer.replace("\\\\", "").replace(r"\{", "").replace(r"\}", "")
        assert bare.count("{") == bare.count("}")
        assert answer in text


def test_megabytes_of_hostile_text_contain_no_answer():
    for text in (r"\boxed{" * 100_000, r"\boxed " * 100_000, "{" * 1_000_000, "}" * 1_000_000, "\\" * 1_000_000):
        assert final_answer(text) is None
    assert final_answer(r"\boxed{" * 100_000 + "2" + "}" * 100_000) is not None


@needs_math_verify
@pytest.mark.parametrize(
    ("expected", "latex", "value"),
    [
        ("2", "2", 1.0),
        ("2", "3", 0.0),
        ("2", "x = 2", 1.0),
        ("2", "2.0", 1.0),
        ("2", r"\frac{4}{2}", 1.0),
        ("2", "1, 2", 0.0),
        ("2", r"1 \text{ or } 2", 0.0),
        ("2", "x", 0.0),
        ("2", "-2", 0.0),
        ("2", r"\pm 2", 0.0),
        ("2", "[1, 3]", 0.0),
        ("2", r"\mathbb{R}", 0.0),
        ("2", "2.0001", 0.0),
        ("2", r"\frac{}", 0.0),
        ("2", "__import__('os').getpid()", 0.0),
        (r"\frac{1}{2}", "0.5", 1.0),
        ("1/2", r"\frac{2}{4}", 1.0),
        ("$0.5$", r"\dfrac12", 1.0),
        (r"\boxed{7}", "7", 1.0),
        ("(x+1)^2", "x^2 + 2x + 1", 1.0),
        ("(x+1)^2", "x^2 + 2x", 0.0),
        (r"3\sqrt{2}", r"\sqrt{18}", 1.0),
        ("1,000", "1000", 1.0),
        ("1, 2", "2, 1", 1.0),
        ("(1, 2)", "(2, 1)", 0.0),
        (r"\text{even}", r"\text{even}", 1.0),
        (r"\text{even}", r"\text{odd}", 0.0),
        (r"10\%", "10%", 1.0),
        (r"10\%", "0.1", 1.0),
        (r"10\%", r"12\%", 0.0),
        (r"2\%", "0.02", 1.0),
        (r"2\%", r"\frac{1}{50}", 1.0),
        (r"2\%", "2%", 1.0),
        (r"2\%", r"x = 2\%", 1.0),
        ("2", r"x = 2\%", 0.0),
        (r"1,000\%", "10", 1.0),
        (r"12.5\%", r"\frac18", 1.0),
        (r"10\%, 20\%", "0.1, 0.2", 1.0),
        ("2%", r"2\%", 1.0),
        (r"2\%", "2", 0.0),
        ("2", r"2\%", 0.0),
        ("2", "2%", 0.0),
        ("0.02", r"2\%", 1.0),
        ("3", "4=3", 0.0),
        ("3", "3=4", 0.0),
        ("3", "x+1=3", 0.0),
        ("3", "2x=3", 0.0),
        ("3", "x=2=3", 0.0),
        ("3", "4=3=3", 0.0),
        ("3", "4=x=3", 0.0),
        ("1, 2", "4=1, 5=2", 0.0),
        ("3", r"\{4=3\}", 0.0),
        ("3", "x=3", 1.0),
        ("3", "x=1+2=3", 1.0),
        ("3", "1+2=3", 1.0),
        ("33", "m+n=33", 1.0),
        ("5", "AB = 5", 1.0),
        ("5", "|z|=5", 1.0),
        (r"\frac12", r"P(A)=\frac12", 1.0),
        (r"\frac12", r"e=\frac12", 1.0),
        ("4", "f(2)=4", 1.0),
        ("x^2", "f(x)=x^2", 1.0),
        ("1, 2", "x=1, y=2", 1.0),
        ("(1, 2)", "(x,y)=(1,2)", 1.0),
        ("x=3", "3", 1.0),
        ("x=3", "4=3", 0.0),
        ("y=2x+1", "y-1=2x", 1.0),
        (r"0.\overline{3}", r"0.\overline{3}", 1.0),
    ],
)
def test_answers_are_compared_as_mathematics(reward, expected, latex, value):
    scored = reward(text_answer(boxed(latex)), Task(expected=expected))
    assert (scored.value, scored.verdict) == (value, "accepted" if value else "wrong_answer")


@needs_math_verify
@settings(max_examples=30, deadline=None)
@given(st.integers(-(10**12), 10**12), st.integers(-(10**12), 10**12))
def test_two_numbers_are_the_same_answer_if_they_are_equal(reward, expected, given):
    assert reward(text_answer(boxed(str(given))), Task(expected=str(expected))).value == float(expected == given)
    assert reward(text_answer(boxed(str(expected))), Task(expected=str(expected))).value == 1.0


@needs_math_verify
def test_an_answer_that_hangs_the_comparison_is_wrong_and_others_are_still_compared(reward):
    towers = ["10^{10^{10}}", "(10^{9})!"]
    with AsyncRewards(reward) as rewards:
        hanging = [rewards.submit(text_answer(boxed(tower)), Task(expected="2")) for tower in towers]
        right = [rewards.submit(text_answer(boxed(f"{n} + 0")), Task(expected=str(n))) for n in range(20)]
        assert [future.result(120).value for future in right] == [1.0] * 20
        for future in hanging:
            scored = future.result(120)
            assert scored.value == 0.0
            assert scored.verdict in ("time_limit", "wrong_answer")


@needs_math_verify
def test_a_very_long_answer_is_wrong(reward):
    for latex in (
        "1" * 4_000,
        "(" * 2_000 + "1" + ")" * 2_000,
        "x^{" * 1_000 + "2" + "}" * 1_000,
        "1+" * 5_000_000 + "1",
    ):
        assert reward(text_answer(boxed(latex)), Task(expected="2")).value == 0.0
    assert reward(text_answer(boxed("2")), Task(expected="2")).value == 1.0


@needs_math_verify
@pytest.mark.parametrize("expected", [r"\frac{", "}", r"\boxed{}", "$$", r"0.\overline{3}"])
def test_the_reward_is_unknown_if_the_expected_answer_cannot_be_read(reward, expected):
    scored = reward(text_answer(boxed("2")), Task(expected=expected))
    assert (scored.value, scored.verdict) == (None, "tests_failed")


@needs_math_verify
def test_a_missing_answer_is_worth_nothing(reward):
    task = Task(expected="2")
    assert reward(text_answer("2"), task).verdict == "no_answer"
    assert reward(text_answer(r"\boxed{2", truncated=True), task).verdict == "truncated"
    with pytest.raises(ValueError, match="expected answer"):
        reward(text_answer(boxed("2")), Task(expected=" "))
