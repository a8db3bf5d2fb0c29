"""`curate plan` simulates a run and says how to split GPUs."""

import re

import pytest
import small_runs
from curate_command import curate

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch and transformers about each other


def test_every_pipeline_is_simulated_and_one_is_advised(small):
    done = curate("plan", small, "--gpus", 8, "--mean-tokens", 12, check=True)
    lines = done.output.splitlines()
    assert lines[0].endswith("on 8 x H100 SXM; 3 x 6 completions of 12 tokens on average, at most 36")
    ways = [re.split(r"\s{2,}", line)[0] for line in lines[2:8]]
    assert ways == ["sync", "one-off", *(f"async, staleness {bound}" for bound in (1, 2, 4, 8))]
    assert lines[8].startswith("advice: ")
    # What it advises can be typed.
    advised = re.findall(r"--set (\S+)", done.output)
    assert small_runs.read(small, *advised).rollout.pipeline in lines[8]


def test_a_price_gives_the_cost_of_a_step_an_answer_and_the_run(small):
    done = curate(
        "plan", small, "--gpus", 8, "--mean-tokens", 12, "--price-gpu-hour", 3600 / 8, "--set", "run.steps=1000"
    )
    assert done.exit_code == 0, done.output
    *_, line = done.output.splitlines()
    step, problem, answer, run = (float(number.replace(",", "")) for number in re.findall(r"[\d.,]*\d(?= )", line)[:4])
    assert step == pytest.approx(18 * answer, rel=0.05)
    assert problem == pytest.approx(6 * answer, rel=0.01)
    assert run == pytest.approx(1000 * step, rel=0.05)
    assert line.endswith("hours, for run.steps = 1000")


@pytest.mark.parametrize("price", ["0", "-1", "nan", "two"])
def test_a_price_that_is_none_is_refused(price, small):
    done = curate("plan", small, "--gpus", 8, "--price-gpu-hour", price)
    assert done.exit_code == 2
    assert "Invalid value for '--price-gpu-hour'" in done.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--gpus", 8, "--mean-tokens", 36],
            "--mean-tokens: completions of at most 36 tokens cannot have 36 on average",
        ),
        (["--gpus", 8, "--set", "rollout.prompt=1"], "rollout.prompt"),
    ],
)
def test_what_cannot_be_simulated_is_explained(words, message, small):
    done = curate("plan", small, *words)
    assert (done.exit_code, "Traceback" in done.output) == (1, False)
    assert message in done.output


def test_a_preset_can_be_planned_without_a_file(tiny_model):
    done = curate(
        "plan", "--preset", "deepcoder-16k", "--model", tiny_model, "--data", "d", "--gpus", 8, "--mean-tokens", 16384
    )
    assert done.exit_code == 1
    assert "completions of at most 16384 tokens cannot have 16384 on average" in done.output


def test_a_model_that_does_not_fit_is_refused(small, tmp_path):
    import transformers

    transformers.Qwen2Config(
        hidden_size=8192, intermediate_size=29568, num_hidden_layers=80, num_attention_heads=64, num_key_value_heads=8
    ).save_pretrained(tmp_path / "big")
    done = curate("plan", small, "--gpus", 8, "--set", f"model.path={tmp_path / 'big'}")
    assert done.exit_code == 1
    assert "the learner does not fit on 8 x H100 SXM" in done.output
