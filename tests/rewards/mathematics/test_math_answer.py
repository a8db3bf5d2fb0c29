"""Mathematical answers are found, compared and rewarded, whatever they contain."""

from collections.abc import Iterator

import pytest
from answers import text_answer
from hypothesis import given, settings
from hypothesis import strategies as st
from math_answers import boxed, needs_math_verify

from rewards.async_rewards import AsyncRewards
from rewards.math_comparison import are_notations_compatible, parse_notation
from rewards.mathematics import MathReward, extract_final_answer
from rewards.reward import Task


@pytest.fixture(scope="module")
def reward() -> Iterator[MathReward]:
    with MathReward(2) as reward:
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
    assert extract_final_answer(text) == answer


@given(st.lists(st.sampled_from([r"\boxed{", "{", "}", r"\{", r"\}", "\\", "x", "$", " "]), max_size=30).map("".join))
def test_the_content_of_a_box_has_balanced_braces(text):
    answer = extract_final_answer(text)
    if answer is not None:
        bare = answer.replace("\\\\", "").replace(r"\{", "").replace(r"\}", "")
        assert bare.count("{") == bare.count("}")
        assert answer in text


def test_megabytes_of_hostile_text_contain_no_answer():
    for text in (r"\boxed{" * 100_000, r"\boxed " * 100_000, "{" * 1_000_000, "}" * 1_000_000, "\\" * 1_000_000):
        assert extract_final_answer(text) is None
    assert extract_final_answer(r"\boxed{" * 100_000 + "2" + "}" * 100_000) is not None


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
@pytest.mark.parametrize(
    ("expected", "latex", "value"),
    [
        (r"5\text{ cm}", r"5\text{ m}", 0.0),
        ("5 cm", "5 m", 0.0),
        (r"5 \mathrm{~cm}", "x = 5 m", 0.0),
        (r"5\text{ cm}", "5", 1.0),
        (r"5\text{ cm}", r"5\,\mathrm{centimeters}", 1.0),
        (r"5\text{ ways}", r"5\text{ different ways}", 1.0),
        (r"15\mbox{ cm}^2", r"15\text{ square centimeters}", 1.0),
        (r"15\mbox{ cm}^2", r"15\mathrm{~cm}^{2}", 1.0),
        (r"15\mbox{ cm}^2", r"15\text{ cm}", 0.0),
        (r"9\text{ m/s}^2", r"9\text{ m}/\text{s}", 0.0),
        (r"60\text{ mph}", r"60\text{ miles per hour}", 1.0),
        (r"5.4 \text{ cents}", r"\$5.4", 0.0),
        (r"90^\circ", r"90\text{ degrees}", 1.0),
        (r"90^\circ", r"90\text{ radians}", 0.0),
        (r"30^\circ\text{C}", r"30\text{ degrees Celsius}", 1.0),
        (r"30^\circ\text{C}", r"30^\circ\text{F}", 0.0),
    ],
)
def test_units_may_be_left_out_but_not_changed(reward, expected, latex, value):
    assert reward(text_answer(boxed(latex)), Task(expected=expected)).value == value


@needs_math_verify
@pytest.mark.parametrize(
    ("expected", "latex", "value"),
    [
        ("1010_2", "1010", 0.0),
        ("1010", "1010_2", 0.0),
        ("10", "1010_2", 0.0),
        ("1010_2", "10 + 0_2", 0.0),
        ("52_{8}", "52_7", 0.0),
        ("0.11_2", "0.11", 0.0),
        ("AB_{16}", "BA_{16}", 0.0),
        ("1A_{16}", "1A", 0.0),
        ("1A_{16}", "1A_{16}", 1.0),
        ("1010_2", "x = 1010_{2}", 1.0),
        ("1010_2", r"(1\,010)_{\text{two}}", 1.0),
        ("1010_2", r"1010\text{ base }2", 1.0),
        ("x_2 + 1", "1 + x_2", 1.0),
        ("A_{12}", "A_{12}", 1.0),
        ("AB", "BA", 0.0),
        ("AB", r"x = \text{BA}", 0.0),
        ("AB, CD", "DC, AB", 0.0),
        ("AB, CD", r"CD \text{ and } AB", 1.0),
        ("AB", r"A \cdot B", 1.0),
        ("xy", "yx", 1.0),
        (r"\frac{PV}{RT}", r"\frac{VP}{TR}", 1.0),
    ],
)
def test_bases_count_and_so_does_the_order_of_letters_in_a_name(reward, expected, latex, value):
    assert reward(text_answer(boxed(latex)), Task(expected=expected)).value == value


@needs_math_verify
@pytest.mark.parametrize(
    ("expected", "latex", "value"),
    [
        ("5", "x=4 or x=5", 0.0),
        ("5", r"x=4 \mathrm{or} x=5", 0.0),
        ("5", r"x=4 \lor x=5", 0.0),
        ("5", r"x=4 \vee x=5", 0.0),
        ("4, 5", r"x=4 \lor x=5", 1.0),
        (r"x<2 \text{ or } x<5", r"x<2 \text{ and } x<5", 0.0),
        (r"x<2 \text{ or } x>5", "x<2, x>5", 1.0),
        (r"\emptyset", r"\varnothing", 1.0),
        (r"\varnothing", r"\{\}", 1.0),
        (r"\varnothing", "0", 0.0),
        ("1000", r"1\,000", 1.0),
        ("1000000", r"1\;000~000", 1.0),
        ("-1000", r"-1\!\,000", 1.0),
        ("12", r"1\,2", 0.0),
        ("5", r"\approx 5", 1.0),
        (r"\approx 5", "5", 1.0),
        ("5", r"\approx 4", 0.0),
        ("i", r"\sqrt{-1}", 1.0),
        ("3+2i", r"3+\sqrt{-4}", 1.0),
        ("2i", r"2\sqrt{-1}", 1.0),
        ("i", r"-\sqrt{-1}", 0.0),
        ("5", r"\text{The answer is 5}", 1.0),
        ("5", r"\text{The answer is } 5.", 1.0),
        ("5", r"\text{The final answer is: $5$.}", 1.0),
        ("5", r"\text{The answer is 4 or 5}", 0.0),
        ("5", r"\text{The answer is not 5}", 0.0),
        (r"\text{even}", r"\text{The answer is even.}", 1.0),
        ("7", r"7 \pmod{10}", 1.0),
        ("7", r"x \equiv 7\ (\mathrm{mod}\ 10)", 1.0),
        (r"7 \pmod{10}", "7", 1.0),
        (r"7 \pmod{10}", r"7 \pmod{11}", 0.0),
        ("7", r"7 \bmod 10", 1.0),
        ("17", r"17 \bmod 10", 0.0),
        ("7", r"8 \equiv 7 \pmod{10}", 0.0),
    ],
)
def test_other_notation_for_the_same_answer_is_right(reward, expected, latex, value):
    assert reward(text_answer(boxed(latex)), Task(expected=expected)).value == value


@given(
    st.lists(
        st.sampled_from(
            r"\text{ } _ _2 _{16} 1 AB ( ) , = \pmod \, \$ ^ 2 cm square / \sqrt{-1 or < mod base".split(" ")
        ),
        max_size=12,
    ).map("".join)
)
def test_every_answer_has_a_notation_that_agrees_with_itself(latex):
    assert are_notations_compatible(parse_notation(latex), parse_notation(latex))


def test_the_notation_of_a_long_hostile_answer_is_read():
    for part in (
        r"\text{",
        r"\text{m}",
        "1_",
        "A",
        "(1",
        r"\pmod",
        r"1\,000",
        r"\text{ ",
        "or ",
        "cm ",
        "^{",
        "}/",
        r"\sqrt{-1",
    ):
        parse_notation(part * (60_000 // len(part)))  # quadratic time would take minutes


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
