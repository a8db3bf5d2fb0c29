"""An evaluation that is not over keeps what was found, as long as the results cannot depend on what has changed."""

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import small_runs

from train.run.evaluation_scheduler import EvaluationScheduler
from train.run.pending_evaluation import PendingEvaluation, find_unfinished_evaluations


@pytest.fixture
def config(small):
    return small_runs.read(small)


@pytest.fixture
def pending(config, tmp_path):
    begun = PendingEvaluation(tmp_path / "a run", 3, 100)
    begun.write_request(config)
    begun.model_folder.mkdir()
    begun.get_samples_path("lcb").write_text("samples")
    begun.record_suite_metrics("humaneval", {"eval/pass@1": 0.5})
    return begun


def test_a_longer_run_keeps_what_was_found(pending, config):
    pending.write_request(replace(config, run=replace(config.run, steps=99)))
    assert pending.get_samples_path("lcb").exists()
    assert pending.read_suite_metrics() == {"humaneval": {"eval/pass@1": 0.5}}


@pytest.mark.parametrize(("section", "change"), [("evaluation", {"k": 7}), ("engine", {"kind": "vllm"})])
def test_another_evaluation_forgets_all_but_the_weights(section, change, pending, config):
    pending.write_request(replace(config, **{section: replace(getattr(config, section), **change)}))
    assert sorted(path.name for path in pending.folder.iterdir()) == ["model", "request.json"]


def test_an_evaluation_that_is_half_removed_is_not_continued(pending, monkeypatch):
    assert find_unfinished_evaluations(pending.run) == [pending]
    with monkeypatch.context() as killed:
        killed.setattr(shutil, "rmtree", lambda *arguments, **options: None)
        pending.remove()
    assert pending.model_folder.exists()
    assert find_unfinished_evaluations(pending.run) == []
    assert not pending.folder.exists()


def test_a_process_that_cannot_be_started_does_not_end_the_run(config, tmp_path, caplog):
    (tmp_path / "evaluations" / "own.log").mkdir(parents=True)  # a folder in the place of its log
    learner = SimpleNamespace(save_pretrained=Path.mkdir)
    timeline = SimpleNamespace(clock=lambda: 1.0, record=lambda *part: None)
    logged = []
    own = EvaluationScheduler(
        replace(config, evaluation=replace(config.evaluation, where="own")),
        tmp_path, learner, None, [SimpleNamespace(name="lcb")], lambda *late: logged.append(late), timeline,
        evaluated_seconds=0.0,
    )  # fmt: skip
    assert own.evaluate_if_due(0, 100) == {}
    own.finish()
    own.close()
    assert logged == []
    assert "step 0 is not evaluated on lcb: its process cannot be started: " in caplog.text
