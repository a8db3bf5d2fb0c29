"""`curate train` needs no configuration file: a preset, a model and a dataset are enough."""

import sys
from dataclasses import replace

import pytest
from curate_command import curate
from small_runs import lines, without_a_file
from source_rows import (
    deepscaler_row,
    livecodebench_row,
    numinamath_row,
    synthetic1_row,
    taco_row,
    words,
    write_jsonl,
    write_parquet,
)

from curate.pipeline import build
from curate.recipes.reader import read_recipe
from sandbox import SandboxOptions
from train.run.folder import read_stored_config

pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")  # of torch and transformers about each other


def test_a_preset_a_model_and_a_dataset_make_a_run_that_can_be_continued(
    tiny_model, six_problems, tmp_path, monkeypatch, caplog
):
    monkeypatch.chdir(tmp_path)
    given = without_a_file("deepcoder-16k", tiny_model, six_problems)
    begun = curate("train", *given, "--set", "run.steps=1", check=True)
    assert "model in runs/deepcoder-16k/model" in begun.output
    assert "trains on 6 unverified rows (livecodebench 6): no solutions of them are published" in caplog.text
    curate("train", *given, "--set", "run.steps=2", "--resume", check=True)
    assert [line["step"] for line in lines(tmp_path / "runs" / "deepcoder-16k" / "metrics.jsonl")] == [0, 1, 2]
    assert read_stored_config(tmp_path / "runs" / "deepcoder-16k").objective.clip_high == 0.28


def test_a_file_of_prompts_needs_no_extra_but_that_for_training(tiny_model, six_problems, tmp_path, monkeypatch):
    for name in ("datasets", "datasketch", "pandas", "xxhash"):  # of the extra data, without what torch and vLLM need
        monkeypatch.setitem(sys.modules, name, None)
    prompts = write_jsonl(tmp_path / "prompts.jsonl", [{"prompt": f"What is {n}?"} for n in range(3)])
    changes = "run.steps=1", "reward.random=true"
    trained = curate(
        "train", *without_a_file("deepcoder-16k", tiny_model, prompts, *changes), "--out", tmp_path / "run"
    )
    assert trained.exit_code == 0, trained.output
    refused = curate("train", *without_a_file("deepcoder-16k", tiny_model, six_problems), "--out", tmp_path / "other")
    assert refused.exit_code == 1
    assert "not installed: datasketch, pandas, xxhash. Type: pip install" in refused.output


def test_the_plan_of_a_preset_says_that_nothing_is_evaluated(tiny_model, six_problems):
    given = ["--preset", "deepcoder-16k", "--model", tiny_model, "--data", six_problems]
    shown = curate("train", *given, "--dry-run", "--gpus", 8, check=True)
    assert "\nevaluation none; to evaluate on a dataset during the run: --set evaluation.dataset=" in shown.output
    assert "each of 6 GPUs" in shown.output


@pytest.fixture
def built(tmp_path):
    """Return a function that builds a shipped recipe's dataset from a row of each source, five of LiveCodeBench."""
    write_parquet(tmp_path / "taco" / "train.parquet", [taco_row(words(0))])
    write_parquet(tmp_path / "synthetic1" / "train.parquet", [synthetic1_row("a", words(1))])
    write_jsonl(tmp_path / "numinamath" / "a.jsonl", [numinamath_row("What is the sum of $1$ and $3$?", "4")])
    write_jsonl(tmp_path / "deepscaler" / "a.jsonl", [deepscaler_row("How many primes are below $20$?", "8")])
    for number, day in enumerate(("2023-05-01", "2024-01-01", "2024-07-31", "2024-08-01", "2025-01-31"), 1):
        rows = [livecodebench_row(str(number), words(number + 1), contest_date=f"{day}T00:00:00")]
        write_jsonl(tmp_path / "livecodebench" / f"test{number if number > 1 else ''}.jsonl", rows)

    def build_recipe(name):
        recipe = read_recipe(name)
        locations = [
            (each.name, {**each.location_spec, "location": str(tmp_path / each.name)}) for each in recipe.sources
        ]
        options = replace(recipe.build, mutants=0)  # the strength of tests decides nothing here
        build(locations, tmp_path / name, options, sandbox=SandboxOptions(workers=2))
        return tmp_path / name

    return build_recipe


def test_a_recipe_and_its_preset_train_on_what_the_article_did_and_say_what_is_unverified(built, tiny_model):
    def plan(preset, recipe):
        shown = curate(
            "train", "--preset", preset, "--model", tiny_model, "--data", built(recipe), "--dry-run", check=True
        )
        return shown.output.splitlines()

    _, data, warning, *_ = plan("deepcoder-16k", "deepcoder")
    assert data.endswith("deepcoder, 5 of 5 problems")
    assert warning == (
        "warning    trains on 3 unverified rows (livecodebench 3): no solutions of them are published, so no reference "
        "solution has passed their tests. To exclude them: --set 'data.include=[]'"
    )
    _, data, batch, *_ = plan("intellect2", "intellect2")
    assert data.endswith("intellect2, 3 of 3 problems")
    assert batch.startswith("batch")


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        pytest.param([], 2, "Give CONFIG, the path of a TOML file, or type: ", id="nothing"),
        pytest.param(["--model", "m", "--data", "d"], 2, "train --preset deepcoder-16k --model", id="no preset"),
        pytest.param(["--preset", "areal", "--data", "d"], 1, "model.path is missing. Give --model", id="no model"),
        pytest.param(["--preset", "areal", "--model", "m"], 1, "data.dataset is missing. Give --data", id="no data"),
        pytest.param(["--preset", "grpo", "--model", "m", "--data", "d"], 1, "unknown preset 'grpo'", id="unknown"),
        pytest.param(
            ["--preset", "areal", "--model", "m", "--data", "d", "--dry-run", "--price-gpu-hour", "2"],
            2,
            "--price-gpu-hour is for a run on GPUs. Omit it; `curate plan` estimates the cost of a run.",
            id="price of a plan",
        ),
        pytest.param(["run", "--replay", "--preset", "areal"], 2, "--replay takes the configuration from", id="replay"),
    ],
)
def test_a_configuration_that_lacks_a_part_is_explained(given, code, message):
    done = curate("train", *given)
    assert (done.exit_code, "Traceback" in done.output) == (code, False), done.output
    assert message in " ".join(done.output.split())
