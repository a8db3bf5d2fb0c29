"""Wherever rows are judged, the trials of their referees come along: a garbage answer is wrong there, not unknown."""

import json
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace

import pytest
from exported import problem, write
from source_rows import read_parquet

from curate.exports._export import ExportOptions, export
from curate.prompt import PromptFormat
from curate.trust import ONLY_TRUSTED
from rewards.code import CodeReward
from rewards.reward import Completion, Task
from rewards.verl import parse_ground_truth
from sandbox import Case, Program, Referee, Sandbox, Suite
from sandbox.json_codec import decode
from sandbox.judge_record import Record
from train.evaluation.difficulty import measure_difficulty
from train.evaluation.exercises import read_exercises
from train.rollouts.prompt_dataset import read_problems
from train.sampling.protocol import SampledCompletion

# Two words, of which the second is a divisor of the number.
DIVISOR = """
import sys
n, (word, d) = int(open(sys.argv[1]).read()), open(sys.argv[2]).read().split()
sys.exit(word != "divisor" or n % int(d) > 0)
"""
CASES = [Case(f"{n}\n", "", f"divisor {d}\n") for n, d in ((9, 3), (25, 5))]
SUITE = Suite(CASES, checker="program", referee=Referee(Program(DIVISOR)))
GARBAGE = "```python\nprint('x')\n```"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return write(tmp_path_factory.mktemp("dataset") / "built", [problem("divisor", SUITE, "print('divisor 1')")])


def test_training_and_evaluation_read_them(dataset):
    (asked,) = read_problems(str(dataset), ONLY_TRUSTED, PromptFormat(), Counter(), Counter())
    (exercise,) = read_exercises(str(dataset))
    assert Suite.from_json(asked.tests) == exercise.judge.suite == SUITE
    assert replace(exercise.judge, suite=SUITE.with_trials(())).identity == exercise.judge.identity


def test_exports_keep_them(dataset, tmp_path):
    def row(to, **options):
        export(dataset, to, tmp_path / to, ExportOptions(select="all", **options))
        (path,) = tmp_path.glob(f"{to}/**/*.parquet")
        return read_parquet(path)[0]

    truth = row("verl", verl_data_source="curate")["reward_model"]["ground_truth"]
    export(dataset, "jsonl", tmp_path / "jsonl", ExportOptions(select="all"))
    suite = decode(Record, json.loads((tmp_path / "jsonl" / "problems.jsonl").read_text())).to_suite()
    assert Suite.from_json(row("trl")["tests"]) == Suite.from_json(row("verifiers")["tests"]) == SUITE
    assert parse_ground_truth(truth) == suite == SUITE


def test_rewards_and_measured_difficulty_count_garbage_as_wrong(dataset):
    @contextmanager
    def sampler(settings):
        yield lambda prompts: ((index, SampledCompletion(GARBAGE, "stop", 5)) for index, _ in enumerate(prompts))

    with Sandbox(workers=1) as box:
        assert CodeReward(box)(Completion(GARBAGE, 5), Task(tests=SUITE)).value == 0.0
        assert CodeReward(box)(Completion(GARBAGE, 5), Task(tests=SUITE.with_trials(()))).value is None
    measured = measure_difficulty(dataset, "m", {"k": 1}, sampler, lambda: Sandbox(workers=1))
    assert (measured.n_judged, measured.n_unjudged) == (1, 0)
