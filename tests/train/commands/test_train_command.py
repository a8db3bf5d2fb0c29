"""`curate train` needs no configuration file: a preset, a model and a dataset are enough."""

import pytest
from click.testing import CliRunner
from small_runs import lines, without_a_file

from cli import main
from train.run.folder import read

pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")  # of torch and transformers about each other


def curate(*words):
    return CliRunner().invoke(main, list(map(str, words)))


def test_a_preset_a_model_and_a_dataset_make_a_run_that_can_be_continued(
    tiny_model, six_problems, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    words = without_a_file("deepcoder-16k", tiny_model, six_problems)
    begun = curate("train", *words, "--set", "run.steps=1")
    assert begun.exit_code == 0, begun.output
    assert "model in runs/deepcoder-16k/model" in begun.output
    continued = curate("train", *words, "--set", "run.steps=2", "--resume")
    assert continued.exit_code == 0, continued.output
    assert [line["step"] for line in lines(tmp_path / "runs" / "deepcoder-16k" / "metrics.jsonl")] == [0, 1, 2]
    assert read(tmp_path / "runs" / "deepcoder-16k").objective.clip_high == 0.28


def test_the_plan_of_a_preset_says_that_nothing_is_evaluated(tiny_model, six_problems):
    words = ["--preset", "deepcoder-16k", "--model", tiny_model, "--data", six_problems]
    shown = curate("train", *words, "--dry-run", "--gpus", 8)
    assert shown.exit_code == 0, shown.output
    assert "\nevaluation none; to evaluate on a dataset during the run: --set evaluation.dataset=" in shown.output
    assert "each of 6 GPUs" in shown.output


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        pytest.param([], 2, "Give CONFIG, the path of a TOML file, or type: ", id="nothing"),
        pytest.param(["--model", "m", "--data", "d"], 2, "train --preset deepcoder-16k --model", id="no preset"),
        pytest.param(["--preset", "areal", "--data", "d"], 1, "model.path is missing. Give --model", id="no model"),
        pytest.param(["--preset", "areal", "--model", "m"], 1, "data.dataset is missing. Give --data", id="no data"),
        pytest.param(["--preset", "grpo", "--model", "m", "--data", "d"], 1, "unknown preset 'grpo'", id="unknown"),
        pytest.param(["run", "--replay", "--preset", "areal"], 2, "--replay takes the configuration from", id="replay"),
    ],
)
def test_a_configuration_that_lacks_a_part_is_explained(words, code, message):
    done = curate("train", *words)
    assert (done.exit_code, "Traceback" in done.output) == (code, False), done.output
    assert message in " ".join(done.output.split())
