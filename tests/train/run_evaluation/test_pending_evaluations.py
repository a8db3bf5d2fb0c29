"""An evaluation that is not over keeps what was found, as long as the results cannot depend on what has changed."""

import shutil
from dataclasses import replace

import pytest
import small_runs

from train.run.evaluation_scheduler import ProcessBackend
from train.run.pending_evaluation import PendingEvaluation, unfinished_evaluations


@pytest.fixture
def config(small):
    return small_runs.read(small)


@pytest.fixture
def pending(config, tmp_path):
    begun = PendingEvaluation(tmp_path / "a run", 3, 100)
    begun.write_request(config)
    begun.model_folder.mkdir()
    begun.samples_path("lcb").write_text("samples")
    begun.record_suite_metrics("humaneval", {"eval/pass@1": 0.5})
    return begun


def test_a_longer_run_keeps_what_was_found(pending, config):
    pending.write_request(replace(config, run=replace(config.run, steps=99)))
    assert pending.samples_path("lcb").exists()
    assert pending.suite_metrics() == {"humaneval": {"eval/pass@1": 0.5}}


@pytest.mark.parametrize(("section", "change"), [("evaluation", {"k": 7}), ("engine", {"kind": "vllm"})])
def test_another_evaluation_forgets_all_but_the_weights(section, change, pending, config):
    pending.write_request(replace(config, **{section: replace(getattr(config, section), **change)}))
    assert sorted(path.name for path in pending.folder.iterdir()) == ["model", "request.json"]


def test_an_evaluation_that_is_half_removed_is_not_continued(pending, monkeypatch):
    assert unfinished_evaluations(pending.run) == [pending]
    with monkeypatch.context() as killed:
        killed.setattr(shutil, "rmtree", lambda *arguments, **options: None)
        pending.remove()
    assert pending.model_folder.exists()
    assert unfinished_evaluations(pending.run) == []
    assert not pending.folder.exists()


def test_a_process_that_cannot_be_started_does_not_end_the_run(pending):
    own = ProcessBackend(pending.run.parent / "another run")  # which has no folder for the log
    own.begin(pending)
    assert own.has_ended
    assert own.failure_reason().startswith("its process cannot be started: ")
    own.finish()
    own.close()
