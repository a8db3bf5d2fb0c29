"""lighteval's own pipeline runs a task that was made from a suite, and its answers are judged by our judges."""

import math
import sys
from pathlib import Path

import pytest
from evalplus_rows import WRONG, humaneval_plus_row, suite_of

from curate.errors import CurateError

pytest.importorskip(
    "lighteval.pipeline",
    reason="lighteval is not installed: it asks for a latex2sympy2_extended that math-verify does not allow. "
    "To run this: pip install lighteval pytest '.[data]' in an environment of its own",
    exc_type=ImportError,
)
from lighteval.logging.evaluation_tracker import EvaluationTracker
from lighteval.models.abstract_model import LightevalModel, ModelConfig
from lighteval.models.model_output import ModelResponse
from lighteval.pipeline import ParallelismManager, Pipeline, PipelineParameters
from lighteval.utils.cache_management import SampleCache

sys.path.insert(0, str(Path(__file__).parents[4] / "examples"))
from lighteval_tasks import lighteval_task, mean_judged_share

pytestmark = pytest.mark.filterwarnings("ignore")  # of lighteval's and of what it imports

RIGHT = "<think>So.</think>\n```python\ndef up(ns):\n    return [n + 1 for n in ns]\n```"


class Canned(LightevalModel):
    """Answers each problem with the texts of its number."""

    def __init__(self, answers, folder):
        self.config = ModelConfig(model_name="canned", cache_dir=str(folder))
        self._cache = SampleCache(self.config)
        self._answers = answers
        self.asked = []

    tokenizer = add_special_tokens = None
    max_length = 4096

    def greedy_until(self, docs):
        self.asked = docs
        return [ModelResponse(text=self._answers[doc.specific["curate_exercise"]][: doc.num_samples]) for doc in docs]

    loglikelihood = loglikelihood_rolling = None  # abstract in LightevalModel; tasks of ours never ask for them

    def cleanup(self):
        pass


@pytest.fixture(autouse=True)
def _own_datasets(own_cache, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "datasets"))


def evaluated(tmp_path: Path, suite: str, answers, task="curate_humaneval_plus", n=2):
    tasks = tmp_path / "my_tasks.py"
    tasks.write_text(f"from lighteval_tasks import lighteval_task\nTASKS_TABLE = [lighteval_task({suite!r}, n={n})]\n")
    model = Canned(answers, tmp_path / "samples")
    pipeline = Pipeline(
        tasks=task,
        pipeline_parameters=PipelineParameters(
            launcher_type=ParallelismManager.NONE, custom_tasks_directory=str(tasks), bootstrap_iters=0
        ),
        evaluation_tracker=EvaluationTracker(output_dir=str(tmp_path / "out"), save_details=False),
        model=model,
    )
    pipeline.evaluate()
    return pipeline.get_results()["results"], model


def test_a_suite_is_a_task_of_lighteval_and_its_number_is_ours(tmp_path):
    suite = suite_of(tmp_path, *map(humaneval_plus_row, range(3)))
    answers = {"HumanEval/0": [RIGHT, RIGHT], "HumanEval/1": [WRONG, RIGHT], "HumanEval/2": ["No.", WRONG]}
    results, model = evaluated(tmp_path, suite, answers)
    assert results["all"]["curate_pass@1"] == 0.5
    assert {doc.num_samples for doc in model.asked} == {2}
    assert all("Complete the function below" in doc.query for doc in model.asked)


def test_the_number_of_samples_can_be_typed(tmp_path):
    suite = suite_of(tmp_path, humaneval_plus_row())
    results, model = evaluated(tmp_path, suite, {"HumanEval/0": [WRONG] * 3 + [RIGHT]}, "curate_humaneval_plus@n=4|0")
    assert results["all"]["curate_pass@1"] == 0.25
    assert model.asked[0].num_samples == 4


def test_an_answer_without_a_verdict_is_not_a_zero(tmp_path, caplog):
    broken = humaneval_plus_row(1, canonical_solution="    return ns[100]\n")
    suite = suite_of(tmp_path, humaneval_plus_row(0), broken)
    results, _ = evaluated(tmp_path, suite, {"HumanEval/0": [RIGHT], "HumanEval/1": [RIGHT]}, n=1)
    assert results["all"]["curate_pass@1"] == 1.0
    assert "HumanEval/1: an answer is not scored" in caplog.text
    assert math.isnan(mean_judged_share([math.nan]))


def test_a_sandbox_that_fails_is_an_error_and_not_a_zero(tmp_path, monkeypatch):
    monkeypatch.setenv("CURATE_URL", "http://127.0.0.1:9")  # where no service is
    with pytest.raises(Exception, match="127.0.0.1:9"):
        evaluated(tmp_path, suite_of(tmp_path, humaneval_plus_row()), {"HumanEval/0": [RIGHT]}, n=1)


def test_a_suite_that_does_not_exist_is_an_error_before_anything_is_sampled():
    with pytest.raises(CurateError, match="there is no suite 'humanevl'"):
        lighteval_task("humanevl")
