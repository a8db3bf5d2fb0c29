"""inspect_ai runs a model, and its answers are judged by our judges: with inspect_ai's own mock model."""

import asyncio
import os

import pytest
from evalplus_rows import WRONG, humaneval_plus_row, suite_of
from foreign import needed
from source_rows import livecodebench_row, words, write_jsonl

from curate.errors import CurateError

needed("inspect_ai")
import inspect_ai  # noqa: E402
from inspect_ai.dataset import Sample  # noqa: E402
from inspect_ai.log import EvalLog  # noqa: E402
from inspect_ai.model import ModelOutput, ModelUsage, get_model  # noqa: E402
from inspect_ai.solver import generate  # noqa: E402

from train.evaluation import for_inspect  # noqa: E402
from train.evaluation.for_inspect import curate_dataset, curate_scorer, curate_task  # noqa: E402

# inspect_ai leaves streams to the garbage collector, and uses what its own libraries call deprecated.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("own_cache")]

RIGHT = "```python\ndef up(ns):\n    return [n + 1 for n in ns]\n```"
ONLY_BASE = "```python\ndef up(ns):\n    return [n + 1 for n in ns if n < 2]\n```"


def output(answer):
    found = ModelOutput.from_content("mockllm/model", answer)
    found.usage = ModelUsage()  # or else the tokens are counted with a vocabulary from the network
    return found


def run(tmp_path, answers, *, suite, dataset=None, scorer=None, **options) -> EvalLog:
    """Return the log of an evaluation in which the model gives these answers, one after the other."""
    outputs = list(map(output, answers))
    task = inspect_ai.Task(
        dataset=dataset or curate_dataset(suite), solver=generate(), scorer=scorer or curate_scorer(suite)
    )
    (log,) = inspect_ai.eval(
        task,
        model=get_model("mockllm/model", custom_outputs=outputs),
        log_dir=str(tmp_path / "logs"),
        display="none",
        max_samples=1,
        **options,
    )
    return log


def numbers(log):
    (score,) = log.results.scores
    return {name: metric.value for name, metric in score.metrics.items()}, score.scored_samples, score.unscored_samples


def test_answers_are_judged_by_the_base_and_the_plus_inputs_and_the_sandbox_is_closed(tmp_path):
    suite = suite_of(tmp_path, *map(humaneval_plus_row, range(4)))
    log = run(tmp_path, [RIGHT, WRONG, ONLY_BASE, "No."], suite=suite)
    assert log.status == "success"
    scores = {sample.id: sample.scores["curate_scorer"] for sample in log.samples}
    assert {id: score.value for id, score in scores.items()} == {
        "HumanEval/0": "C",
        "HumanEval/1": "I",
        "HumanEval/2": "I",
        "HumanEval/3": "I",
    }
    assert scores["HumanEval/2"].metadata == {
        "verdict": "wrong_answer",
        "parts": {"base": "accepted", "plus": "wrong_answer"},
    }
    assert scores["HumanEval/3"].explanation == "no_code"
    assert numbers(log)[0]["accuracy"] == 0.25
    assert "Complete the function below" in log.samples[0].input[0].content
    assert for_inspect._sandbox._sandbox is None


def test_several_samples_of_each_problem_are_epochs(tmp_path):
    suite = suite_of(tmp_path, humaneval_plus_row(0), humaneval_plus_row(1))
    log = run(tmp_path, [RIGHT, WRONG, RIGHT, RIGHT], suite=suite, epochs=2)
    assert numbers(log)[0]["accuracy"] == 0.75


def test_an_exercise_is_found_by_the_metadata_of_a_sample_that_has_another_id(tmp_path):
    suite = suite_of(tmp_path, humaneval_plus_row(0), humaneval_plus_row(1))
    sample = Sample(input="Write up(ns).", id="mine", metadata={"curate_exercise": "HumanEval/1"})
    assert numbers(run(tmp_path, [RIGHT], suite=suite, dataset=[sample]))[0]["accuracy"] == 1.0
    log = run(tmp_path, [RIGHT], suite=suite, dataset=[Sample(input="Write up(ns).", id="mine")])
    assert log.status == "error"
    assert "has no exercise 'mine'; its 2 exercises have ids such as 'HumanEval/0'" in log.error.message


def test_a_sandbox_that_fails_is_an_error_of_the_sample_and_not_a_zero(tmp_path, monkeypatch):
    monkeypatch.setenv("CURATE_URL", "http://127.0.0.1:9")  # where no service is
    log = run(tmp_path, [RIGHT], suite=suite_of(tmp_path, humaneval_plus_row()))
    assert log.status == "error"
    assert "127.0.0.1:9" in log.error.message
    assert log.samples[0].scores in (None, {})


def test_an_answer_without_a_verdict_is_not_scored(tmp_path):
    broken = humaneval_plus_row(1, canonical_solution="    return ns[100]\n")
    log = run(tmp_path, [RIGHT, RIGHT], suite=suite_of(tmp_path, humaneval_plus_row(0), broken))
    assert log.status == "success"
    assert numbers(log) == ({"accuracy": 1.0, "stderr": 0.0}, 1, 1)
    (unscored,) = [sample.scores["curate_scorer"] for sample in log.samples if sample.id == "HumanEval/1"]
    assert unscored.reason == "scoring_failed"
    assert "its reference fails on input 0" in unscored.explanation


def test_a_log_can_be_scored_again_by_the_name_of_the_scorer(tmp_path):
    suite = suite_of(tmp_path, humaneval_plus_row())
    log = run(tmp_path, [RIGHT], suite=suite)
    assert log.eval.scorers[0].options == {"suite": suite}  # by which `inspect score LOG` finds it again
    again = inspect_ai.score(log, curate_scorer(suite), action="overwrite", display="none")
    assert numbers(again)[0]["accuracy"] == 1.0
    for_inspect._sandbox.close()  # the end of a run closes it, but this was none


def test_other_samples_go_on_while_one_is_judged(tmp_path):
    """The event loop of inspect_ai is never blocked by the sandbox."""
    suite = suite_of(tmp_path, humaneval_plus_row())
    score = curate_scorer(suite)
    seen = []

    async def other(done):
        while not done.is_set():
            seen.append(len(seen))
            await asyncio.sleep(0)

    async def both():
        done = asyncio.Event()
        waiting = asyncio.create_task(other(done))
        state = inspect_ai.solver.TaskState(
            model="mockllm/model", sample_id="HumanEval/0", epoch=1, input="", messages=[]
        )
        state.output = output(RIGHT)
        found = await score(state, inspect_ai.scorer.Target(""))
        before = len(seen)
        done.set()
        await waiting
        return found.value, before

    value, before = asyncio.run(both())
    for_inspect._sandbox.close()
    assert value == "C"
    assert before > 10


def test_a_suite_that_does_not_exist_is_an_error_before_anything_is_sampled(tmp_path):
    with pytest.raises(CurateError, match="there is no suite 'humanevl'.*Did you mean humaneval"):
        curate_scorer("humanevl")
    with pytest.raises(CurateError, match=os.sep):
        curate_dataset(f"humaneval={tmp_path / 'nowhere.jsonl'}")


def test_a_task_has_the_settings_of_a_protocol(tmp_path):
    rows = write_jsonl(tmp_path / "lcb.jsonl", [livecodebench_row("a", words("a"))])
    task = curate_task(f"lcb={rows}", protocol="lcb", window="2020-01-01..2030-01-01")
    assert (task.config.temperature, task.config.max_tokens, task.config.stop_seqs) == (0.2, 2000, ["###"])
    assert task.epochs == 10
    system, user = task.dataset[0].input
    assert system.text.startswith("You are an expert Python programmer.")
    assert user.text.startswith("### Question:\n")


def test_a_form_in_which_the_model_continues_a_text_is_refused(tmp_path):
    suite = suite_of(tmp_path, humaneval_plus_row())
    with pytest.raises(CurateError, match="Use `curate evaluate`, or another form, such as evalplus-thinking"):
        curate_dataset(suite, protocol="evalplus")
    (sample,) = curate_dataset(suite, protocol="evalplus", form="evalplus-thinking")
    assert sample.input[0].text.startswith("Please provide a self-contained Python script")
    with pytest.raises(CurateError, match="there is no protocol 'evalpluss'; there are deepcoder, lcb"):
        curate_dataset(suite, protocol="evalpluss")
