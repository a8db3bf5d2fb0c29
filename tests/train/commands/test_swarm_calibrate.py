"""`curate swarm calibrate` measures honest engines, and writes thresholds that a coordinator can read."""

import re

import pytest
from curate_command import curate

from train.errors import ConfigError
from train.swarm.verification.thresholds import ShareThreshold, Thresholds, add_thresholds, read_thresholds

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch and transformers about each other


def test_bars_are_measured_and_written_beside_those_of_other_pairs(small, tmp_path):
    out = tmp_path / "bars.toml"
    add_thresholds(out, "vllm/transformers", Thresholds(seed_mismatches=ShareThreshold(0.07)))
    result = curate("swarm", "calibrate", small, "--out", out, "--groups", 10, check=True)
    assert "transformers/transformers: 1," in result.output
    thresholds = read_thresholds(out)
    assert thresholds["vllm/transformers"] == Thresholds(seed_mismatches=ShareThreshold(0.07))
    found = thresholds["transformers/transformers"]
    assert found.exponent_mismatches.limit == 4  # the floor: it is the same model in the same library
    assert 0 < found.seed_mismatches.rate < 0.002


def test_too_few_answers_are_an_error_that_says_so(small, tmp_path):
    result = curate("swarm", "calibrate", small, "--out", tmp_path / "bars.toml", "--groups", 1)
    assert result.exit_code == 1
    assert "too few to calibrate by" in result.output
    assert not (tmp_path / "bars.toml").exists()


def test_a_file_that_holds_no_bars_is_not_replaced(small, tmp_path):
    out = tmp_path / "bars.toml"
    out.write_text("[other]\nexponent_mismatches = 'many'\n")
    result = curate("swarm", "calibrate", small, "--out", out)
    assert result.exit_code == 1
    assert "does not hold thresholds" in result.output
    assert "many" in out.read_text()


@pytest.mark.parametrize(
    "line",
    [
        "margins.mean = nan",
        "exponent_mismatches.limit = -1",
        "margins = 0.5",
        "margin = { mean = 0.1, variance = 0.1, scale = 0.1, limit = 0.5 }",
        "margins = { mean = 0.1, variance = 0.1, scale = 0.1, limit = inf }",
        "margins = { mean = 0.1, variance = 0.1, scale = 0.1 }",
        "seed_mismatches = { rate = 1.0 }",
    ],
)
def test_bars_that_would_let_anything_pass_are_refused(tmp_path, line):
    path = tmp_path / "bars.toml"
    path.write_text(f'["vllm/transformers"]\n{line}\n')
    with pytest.raises(ConfigError, match=re.split("[ .]", line)[0]):
        read_thresholds(path)
