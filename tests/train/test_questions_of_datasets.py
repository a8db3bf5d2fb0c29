"""Math problems in a dataset's folder are asked for a final answer, and judged by the expected one."""

import shutil
from collections import Counter
from contextlib import contextmanager

import pytest
import small_runs
from run_folder import make_once, run_folder
from source_rows import numinamath_row, write_jsonl
from tiny_model import teach

from curate.dataset.dataset import Dataset
from curate.difficulty import table as solve_rates
from curate.options import BuildOptions
from curate.pipeline import build
from curate.prompt import MATHEMATICS_INSTRUCTION, PromptFormat
from curate.trust import ONLY_TRUSTED
from sandbox import Sandbox, SandboxOptions
from train.errors import ConfigError
from train.evaluation.difficulty import measure_difficulty
from train.evaluation.exercises import read_exercises
from train.rollouts.prompt_dataset import ProblemKinds, read_problems
from train.run.metrics_log import read_metrics
from train.run.plan import plan
from train.sampling.protocol import SampledCompletion

QUESTIONS = {
    "What is the half of one?": r"\frac{1}{2}",
    "What is the sum of 3 and 4?": "7",
    "How many days are in two weeks?": "14",
}


@pytest.fixture(scope="module")
def dataset():
    def make(folder):
        rows = [numinamath_row(question, answer) for question, answer in QUESTIONS.items()]
        raw = write_jsonl(folder / "rows.jsonl", rows)
        build([("numinamath", str(raw))], folder / "out", BuildOptions(), sandbox=SandboxOptions(workers=1))

    return make_once(run_folder() / "questions", make) / "out"


@pytest.fixture(scope="module")
def undecided():
    """Return the folder of a tiny model that gives the right answer to each question half of the time."""

    def make(folder):
        teach(
            folder,
            {
                f"{question} {MATHEMATICS_INSTRUCTION}": [rf"\boxed{{{answer}}}", r"\boxed{3}"]
                for question, answer in QUESTIONS.items()
            },
        )

    return make_once(run_folder() / "undecided", make)


@pytest.fixture
def run_file(tmp_path, undecided, dataset):
    path = small_runs.written(tmp_path, undecided, dataset)
    path.write_text(path.read_text() + "[reward]\nmath = 1.0\n")
    return path


def test_an_evaluation_judges_the_final_answer(dataset):
    exercise = next(exercise for exercise in read_exercises(str(dataset)) if exercise.id == "numinamath/0")
    assert exercise.prompt[-1]["content"] == f"What is the half of one? {MATHEMATICS_INSTRUCTION}"
    answers = [r"so \boxed{0.5}", r"so \boxed{2}", "no box"]
    verdicts = [exercise.judge_completion(answer, None).verdict for answer in answers]
    assert verdicts == ["accepted", "wrong_answer", "no_answer"]


def test_difficulty_counts_answers_that_equal_the_expected_one(dataset, tmp_path):
    answers = [r"\boxed{0.5}", r"\boxed{1/2}", r"\boxed{7}", "I do not know."]

    @contextmanager
    def sampler(settings):
        yield lambda prompts: (
            (index, SampledCompletion(answers[index % 4], "stop", 5)) for index, _ in enumerate(prompts)
        )

    def measure():
        return measure_difficulty(folder, "m", {"k": 4}, sampler, lambda: Sandbox(workers=1))

    folder = shutil.copytree(dataset, tmp_path / "dataset")
    measured = measure()
    assert (measured.n_sampled, measured.n_judged, measured.n_unjudged) == (12, 12, 0)
    rates = {row["id"]: (row["n_correct"], row["n_no_code"], row["n"]) for row in solve_rates.read(folder)}
    assert rates == {"numinamath/0": (2, 1, 4), "numinamath/1": (1, 1, 4), "numinamath/2": (0, 1, 4)}
    assert measure().n_sampled == 0


def test_a_run_reads_the_question_with_its_expected_answer(dataset):
    problems = {row.id: row for row in read_problems(str(dataset), ONLY_TRUSTED, PromptFormat(), Counter(), Counter())}
    problem = problems["numinamath/0"]
    assert (problem.tests, problem.expected_answer, problem.source) == ("", r"\frac{1}{2}", "numinamath")
    assert problem.kind == ProblemKinds(answers=True)
    assert problem.chat[-1]["content"].endswith(MATHEMATICS_INSTRUCTION)


@pytest.mark.filterwarnings("ignore")  # of torch and transformers about each other
def test_a_run_trains_on_questions_and_is_evaluated_on_them(run_file, dataset, tmp_path):
    settings = "run.steps=2", f"evaluation.dataset={dataset}", "evaluation.k=4"
    run = small_runs.trained(run_file, tmp_path / "run", *settings)
    steps = [line for line in read_metrics(run) if "grad_norm" in line]
    assert len(steps) == 2
    assert all(0 < line["rewards/math/mean"] < 1 and line["grad_norm"] > 0 for line in steps)
    assert all(0 < line["sources/numinamath/solve_rate"] <= 1 for line in steps)
    expected = {row["id"]: row["expected_answer"] for row in Dataset(dataset).iter_rows("data")}
    for sample in small_runs.lines(run / "samples.jsonl"):
        assert sample["reward"] == (rf"\boxed{{{expected[sample['problem']]}}}" in sample["text"])
    assert [line["step"] for line in read_metrics(run) if "eval/pass@1" in line] == [0, 2]


def test_a_run_on_questions_without_a_reward_for_them_is_refused_by_its_plan(run_file):
    with pytest.raises(ConfigError, match=r"prompts with expected answers.*Give reward.math = 1.0"):
        list(plan(small_runs.read(run_file, "reward.math=0")))
    assert any("3 of 3 problems" in line for line in plan(small_runs.read(run_file)))
