"""The suites of a run have different names, and the plan says what is evaluated."""

import pytest
import small_runs

from train.errors import ConfigError
from train.run.pending_evaluation import read_suites
from train.run.plan import plan

TRUST = 'evaluation.include=["unverified"]'


def test_a_dataset_has_the_name_of_its_folder(small, six_problems):
    config = small_runs.read(small, f'evaluation.suites=["dataset={six_problems}"]', TRUST, "evaluation.problems=2")
    assert [(suite.name, len(suite.exercises)) for suite in read_suites(config)] == [("out", 2)]
    assert read_suites(small_runs.read(small)) == ()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param(["evaluation.dataset={0}", 'evaluation.suites=["dataset={0}"]'], "2 suites have the name out"),
        pytest.param(
            ["evaluation.dataset={0}", "evaluation.keep_best=lcb"], "'lcb' is not evaluated; choose one of out"
        ),
        pytest.param(["evaluation.keep_best=lcb"], "name it in evaluation.suites"),
    ],
)
def test_mistakes_are_explained(changes, words, small, six_problems):
    config = small_runs.read(small, TRUST, *(change.format(six_problems) for change in changes))
    with pytest.raises(ConfigError, match=words):
        read_suites(config)


def test_the_plan_says_what_is_evaluated_and_where(small, six_problems):
    changes = [f"evaluation.dataset={six_problems}", "evaluation.where=own", "evaluation.keep_best=out"]
    lines = list(plan(small_runs.read(small, TRUST, *changes, "evaluation.every_minutes=30")))
    assert "evaluation out, 6 problems x 1" in lines
    when = "at the start and the end, every 10 steps, every 30 minutes, with a separate engine"
    assert f"           {when}; the best by out is kept" in lines
