"""The card of a trained model has the numbers of the run, and settings that can be run again."""

import json
import re
from math import nan

import pytest

from train.config import (
    Config,
    DataConfig,
    EvaluationConfig,
    ModelConfig,
    ObjectiveConfig,
    StageConfig,
    as_table,
    read_config,
)
from train.errors import ConfigError, NoRunError
from train.run.metrics_log import MetricsLog, Timeline

pytest.importorskip("torch", reason="torch is not installed; `make test` installs it")
from train.run.model_card import write

EVALUATION = EvaluationConfig(dataset="shared/lcb.jsonl", window="2024-08-01..2025-02-01", k=4)


def run_of(folder, config, *, steps=30):
    metrics, clock = MetricsLog(folder), Timeline(folder)
    (folder / "config.json").write_text(json.dumps(as_table(config)))
    for step in range(steps + 1):
        figures = {}
        if step:
            figures = {"reward": step / 100, "entropy": nan, "num_tokens": 1000 * step, "completions/clipped_ratio": 0}
        if config.evaluation.dataset:
            figures |= {"eval/pass@1": 0.3 + step / 100, "eval/pass@1_low": 0.2, "eval/pass@1_high": 0.9}
        metrics.log(step, figures)
        clock.record(step, "train", 120 * step, 120 * step + 120)
    return folder


def test_its_numbers_are_those_of_the_run(six_problems, tmp_path):
    config = Config(ModelConfig("Qwen/Qwen3-0.6B"), DataConfig(str(six_problems)), evaluation=EVALUATION)
    card = write(run_of(tmp_path / "first-try", config))
    assert card == tmp_path / "first-try" / "model" / "README.md"
    text = card.read_text()
    assert "# Qwen3-0.6B-first-try" in text
    assert "| reward | 0.03 | 0.28 |" in text  # steps 1 to 5, and 26 to 30
    assert "entropy" not in text.partition("## Objective")[0]  # never known
    assert "30 of 50 steps with 16 problems and 16 completions per problem; 30,000 tokens" in text
    assert "1.03 hours on " in text
    content_hash = json.loads((six_problems / "manifest.json").read_text())["content_hash"]
    assert f"6 problems of livecodebench, content hash `{content_hash}`" in text
    rows = re.findall(r"^\| (\d+) \| (\S+) \| 0\.200 to 0\.900 \| - \|", text, re.MULTILINE)
    assert rows[0] == ("0", "0.300")
    assert rows[-1] == ("30", "0.600")
    assert len(rows) == 12


def test_its_front_matter_is_what_the_hub_reads(six_problems, tmp_path):
    from huggingface_hub import ModelCard

    config = Config(ModelConfig("Qwen/Qwen3-0.6B"), DataConfig(str(six_problems)), evaluation=EVALUATION)
    data = ModelCard.load(write(run_of(tmp_path / "run", config))).data
    assert (data.base_model, data.library_name, data.pipeline_tag) == (
        "Qwen/Qwen3-0.6B",
        "transformers",
        "text-generation",
    )
    assert [(result.metric_type, result.metric_value) for result in data.eval_results] == [("pass@1", 0.6)]


def test_its_settings_are_a_file_that_can_be_run_again(six_problems, tmp_path):
    config = Config(
        ModelConfig(str(tmp_path), lora_rank=8),
        DataConfig(str(six_problems), target_tokens=(100, 200)),
        stages=(StageConfig(64, until_step=5), StageConfig(128)),
    )
    text = write(run_of(tmp_path / "run", config)).read_text()
    (settings,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "again.toml").write_text(settings)
    assert read_config(tmp_path / "again.toml") == config
    assert "base_model" not in text  # a folder of this machine is not a name for others
    assert "library_name: transformers" in text  # LoRA is merged into what is saved


@pytest.mark.parametrize(
    ("objective", "said", "unsaid"),
    [
        (
            ObjectiveConfig(),
            ["clipped to 0.8 and 1.28, wider above", "No KL term", "Truncated completions are excluded"],
            [],
        ),
        (
            ObjectiveConfig(by_std=True, clip_high=0.2, delta=4, kl=0.04, overlong="none", aggregation="sequence_mean"),
            ["divided by its standard deviation", "bounded by 4", "KL to the reference, coefficient 0.04"],
            ["wider above", "excluded", "not divided"],
        ),
    ],
)
def test_the_objective_is_described_in_words(six_problems, tmp_path, objective, said, unsaid):
    config = Config(ModelConfig("a/b"), DataConfig(str(six_problems)), objective=objective)
    text = write(run_of(tmp_path / "run", config)).read_text()
    assert [words for words in said if words not in text] == []
    assert [words for words in unsaid if words in text] == []
    assert "Nothing was evaluated on problems that training did not see." in text


def test_a_missing_dataset_is_reported_as_missing(tmp_path):
    text = write(run_of(tmp_path / "run", Config(ModelConfig("a/b"), DataConfig("/nowhere/set")))).read_text()
    assert "`/nowhere/set`, which no longer exists." in text


def test_a_run_without_a_step_has_no_card(tmp_path):
    with pytest.raises(ConfigError, match="is not the folder of a run"):
        write(tmp_path)
    with pytest.raises(NoRunError, match="no step is finished yet"):
        write(run_of(tmp_path / "run", Config(ModelConfig("a/b"), DataConfig("set")), steps=0))


@pytest.mark.parametrize(
    ("suite", "name"),
    [("dataset=some/held_out", "held_out"), ("lcb=data/test6.jsonl", "lcb"), ("lcb?release=v5", "lcb")],
)
def test_a_single_suite_is_called_by_its_name(suite, name, six_problems, tmp_path):
    run = run_of(
        tmp_path / "run",
        Config(ModelConfig("m"), DataConfig(str(six_problems)), evaluation=EvaluationConfig(suites=(suite,))),
    )
    MetricsLog(run).log(30, {"eval/pass@1": 0.5})
    assert f"On `{name}`: " in write(run).read_text()
