"""The metrics of a run are complete after a kill, and have no repeated step after a resume."""

import json
from importlib.util import find_spec
from math import inf, nan

import pytest
from test_figures import LOST, RIGHT

from train.errors import ConfigError
from train.run.metrics_log import METRICS, SAMPLES, MetricsLog, delete_after_step, read_json_lines, read_metrics


def test_a_step_is_a_line_of_json_with_null_for_unknown_values(tmp_path):
    metrics = MetricsLog(tmp_path / "run")
    metrics.log(1, {"reward": 0.25, "kl": nan, "loss": inf})
    metrics.log(2, {"reward": 0.5})
    found = (tmp_path / "run" / METRICS).read_text().splitlines()
    assert [json.loads(line) for line in found] == [
        {"step": 1, "reward": 0.25, "kl": None, "loss": None},
        {"step": 2, "reward": 0.5},
    ]


def test_an_evaluation_is_added_to_the_other_figures_of_its_step(tmp_path):
    metrics = MetricsLog(tmp_path)
    metrics.log(1, {"reward": 0.25})
    metrics.log(1, {"eval/pass@1": 0.5})
    assert read_metrics(tmp_path) == [{"step": 1, "reward": 0.25, "eval/pass@1": 0.5}]


def test_a_resumed_run_reports_every_step_once_and_continues_its_counts(tmp_path):
    before = MetricsLog(tmp_path)
    for step in range(1, 6):
        before.log(step, {"reward": step / 10, "num_tokens": 100 * step, "kl": nan})
        before.log_samples(step, [RIGHT])
    after = MetricsLog(tmp_path)
    assert after.truncate_after(3) == {"step": 3, "reward": 0.3, "num_tokens": 300}
    after.log(4, {"reward": 1.0})
    after.log_samples(4, [RIGHT, LOST])
    assert [(line["step"], line["reward"]) for line in read_metrics(tmp_path)] == [
        (1, 0.1),
        (2, 0.2),
        (3, 0.3),
        (4, 1.0),
    ]
    assert [line["step"] for line in read_json_lines(tmp_path / SAMPLES)] == [1, 2, 3, 4, 4]


def test_a_run_that_has_not_begun_has_no_metrics(tmp_path):
    assert MetricsLog(tmp_path).truncate_after(0) == {}
    assert read_metrics(tmp_path) == []


def test_a_torn_line_is_ignored_and_does_not_spoil_the_next(tmp_path):
    (tmp_path / METRICS).write_text('{"step": 1, "reward": 0.5}\n{"step": 2, "rew')
    metrics = MetricsLog(tmp_path)
    metrics.truncate_after(2)
    metrics.log(3, {"reward": 0.75})
    assert [line["step"] for line in read_metrics(tmp_path)] == [1, 3]


def test_lines_are_dropped_all_at_once(tmp_path):
    path = tmp_path / METRICS
    path.write_text('{"step": 1}\n{"step": 2}\n')
    (tmp_path / "metrics.jsonl.new").mkdir()  # so the shorter file cannot be written
    with pytest.raises(OSError, match="directory"):
        delete_after_step(path, 1)
    assert [line["step"] for line in read_json_lines(path)] == [1, 2]


def test_samples_have_their_verdicts_and_no_signal_is_null(tmp_path):
    metrics = MetricsLog(tmp_path)
    metrics.log_samples(7, [RIGHT, LOST])
    assert [(line["problem"], line["verdict"], line["reward"]) for line in read_json_lines(tmp_path / SAMPLES)] == [
        ("p", "accepted", 1.0),
        ("p", "", None),
    ]


@pytest.mark.filterwarnings("ignore")  # of TensorBoard about what it was built with
def test_tensorboard_has_the_same_figures_and_forgets_the_same_steps(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    before = MetricsLog(tmp_path, tensorboard=True)
    for step in (1, 2, 3):
        before.log(step, {"reward": step, "kl": nan})
    before.close()
    after = MetricsLog(tmp_path, tensorboard=True)
    after.truncate_after(1)
    after.log(2, {"reward": 20})
    after.close()
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in events.Scalars("reward")] == [(1, 1), (2, 20)]
    assert events.Tags()["scalars"] == ["reward"]


@pytest.mark.skipif(find_spec("wandb") is not None, reason="wandb is installed")
def test_wandb_that_is_not_installed_says_what_to_type(tmp_path, monkeypatch):
    (tmp_path / "wandb").mkdir()  # where its runs lie, and no package
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="wandb is not installed. Type: pip install wandb"):
        MetricsLog(tmp_path, wandb="project")
