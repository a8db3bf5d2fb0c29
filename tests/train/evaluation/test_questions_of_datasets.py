"""Questions of mathematics in a dataset's folder are asked for a final answer, and judged by the expected one."""

from collections import Counter

import pytest
from source_rows import numinamath_row, words, write_jsonl

from curate.options import BuildOptions
from curate.pipeline import build
from curate.prompt import MATHEMATICS_INSTRUCTION, PromptFormat
from curate.trust import ONLY_TRUSTED
from sandbox import SandboxOptions
from train.evaluation.exercises import read_exercises
from train.rollouts.prompt_dataset import ProblemKinds, read_problems


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    raw = tmp_path_factory.mktemp("raw")
    write_jsonl(raw / "rows.jsonl", [numinamath_row(f"{words('a', 30)} How many?", r"\frac{1}{2}")])
    build([("numinamath", str(raw / "rows.jsonl"))], raw / "out", BuildOptions(), sandbox=SandboxOptions(workers=1))
    return raw / "out"


def test_an_evaluation_judges_the_final_answer(dataset):
    (exercise,) = read_exercises(str(dataset))
    assert exercise.prompt[-1]["content"].endswith(MATHEMATICS_INSTRUCTION)
    answers = [r"so \boxed{0.5}", r"so \boxed{2}", "no box"]
    verdicts = [exercise.judge_answer(answer, None).verdict for answer in answers]
    assert verdicts == ["accepted", "wrong_answer", "no_answer"]


def test_a_run_trains_on_the_question_with_its_expected_answer(dataset):
    (problem,) = read_problems(str(dataset), ONLY_TRUSTED, PromptFormat(), Counter(), Counter())
    assert (problem.tests, problem.expected_answer, problem.source) == ("", r"\frac{1}{2}", "numinamath")
    assert problem.kind == ProblemKinds(answers=True)
    assert problem.chat[-1]["content"].endswith(MATHEMATICS_INSTRUCTION)
