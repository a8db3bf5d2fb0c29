"""Final answers of AIME and MATH are recognised in the forms in which models write them."""

import json
import random

import pytest
from math_answers import needs_math_verify
from source_rows import DATA

from rewards.reward import ACCEPTED, NO_ANSWER, WRONG_ANSWER
from train.evaluation.judges.judge import NoVerdictError
from train.evaluation.judges.math_judge import MathJudge, parse_integer


@pytest.mark.parametrize(
    ("latex", "number"),
    [
        ("33", 33),
        ("033", 33),
        ("33.0", 33),
        ("33.", 33),
        (r"33^\circ", 33),
        (r"33^{\circ}", 33),
        (r"\text{33}", 33),
        (r"\textbf{33}", 33),
        ("n=33", 33),
        ("n = 33", 33),
        ("m+n = 33", 33),
        ("$33$", 33),
        ("{33}", 33),
        (r"1{,}033", 1033),
        ("1,033", 1033),
        (r"1\,033", 1033),
        ("0", 0),
        ("-33", -33),
        ("33, 34", None),
        ("33 34", None),
        ("33 or 34", None),
        (r"33\text{ or }34", None),
        ("33.5", None),
        ("3^3", None),
        ("x = 2 = 33", None),
        ("x + 1 = 33", None),
        (r"\frac{66}{2}", None),
        ("33_{10}", None),
        ("", None),
        ("3" * 101, None),
    ],
)
def test_one_whole_number_is_read_in_many_forms(latex, number):
    assert parse_integer(latex) == number


@needs_math_verify
@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (r"So \boxed{33}.", ACCEPTED),
        (r"So \boxed{033}.", ACCEPTED),
        (r"So \boxed{33.}", ACCEPTED),
        (r"So \boxed 33", ACCEPTED),
        (r"So $\boxed{n=33}$", ACCEPTED),
        (r"So \boxed{\frac{66}{2}}", ACCEPTED),
        (r"So \boxed{\boxed{33}}", ACCEPTED),
        (r"<think>\boxed{34}</think> \boxed{33}", ACCEPTED),
        (r"<think>\boxed{33}</think> I cannot tell.", NO_ANSWER),
        (r"\boxed{34}, no, \boxed{33}", ACCEPTED),
        (r"\boxed{33}, no, \boxed{34}", WRONG_ANSWER),
        (r"\boxed{33, 34}", WRONG_ANSWER),
        (r"\boxed{33 or 34}", WRONG_ANSWER),
        (r"\boxed{33 \text{ or } 34}", WRONG_ANSWER),
        (r"\boxed{33 34}", WRONG_ANSWER),
        (r"\boxed{33.5}", WRONG_ANSWER),
        (r"\boxed{-33}", WRONG_ANSWER),
        (r"\boxed{x}", WRONG_ANSWER),
        ("The answer is 33.", NO_ANSWER),
        (r"\boxed{33", NO_ANSWER),
    ],
)
def test_an_answer_of_aime_is_a_whole_number_first(box, answer, verdict):
    assert MathJudge("33", expects_integer=True).judge(answer, box).verdict == verdict
    assert MathJudge("033", expects_integer=True).judge(answer, box).verdict == verdict


@needs_math_verify
@pytest.mark.parametrize(
    ("expected", "answer", "verdict"),
    [
        (r"\frac{1}{2}", r"\boxed{0.5}", ACCEPTED),
        (r"\left( 3, \frac{\pi}{2} \right)", r"\boxed{(3, \pi/2)}", ACCEPTED),
        (r"106^\circ", r"\boxed{106}", ACCEPTED),
        (r"\text{Evelyn}", r"\boxed{\text{Evelyn}}", ACCEPTED),
        (r"\text{Evelyn}", r"\boxed{\text{Carla}}", WRONG_ANSWER),
        ("3", r"\boxed{4}", WRONG_ANSWER),
    ],
)
def test_an_answer_of_math_is_compared_by_math_verify(box, expected, answer, verdict):
    assert MathJudge(expected).judge(answer, box).verdict == verdict


@needs_math_verify
def test_an_expected_answer_that_cannot_be_read_gives_no_verdict_but_for_the_same_text(box):
    judge = MathJudge(r"\unknown{")
    with pytest.raises(NoVerdictError, match="the expected answer cannot be read"):
        judge.judge(r"\boxed{\text{something}}", box)


@needs_math_verify
@pytest.mark.thorough
@pytest.mark.skipif(not (DATA / "evaluation").is_dir(), reason="the real data are not beside this checkout")
def test_published_answers_are_accepted_as_their_own(box):
    rows = random.Random(0).sample(json.loads((DATA / "evaluation" / "math500.json").read_text()), 60)
    wrong = [
        row["unique_id"]
        for row in rows
        if MathJudge(row["answer"]).judge(rf"\boxed{{{row['answer']}}}", box).verdict != ACCEPTED
    ]
    assert wrong == []
