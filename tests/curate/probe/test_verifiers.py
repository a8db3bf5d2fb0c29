"""`curate probe verifiers:NAME` tests the reward of an installed environment."""

from pathlib import Path

import pytest
from curate_command import curate
from exported import problems, write
from foreign import needed

needed("verifiers")

from curate.exports._export import ExportOptions, export  # noqa: E402


def test_the_reward_of_an_environment_is_probed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export(write(tmp_path / "built", problems()), "verifiers", tmp_path / "My Set", ExportOptions())
    monkeypatch.chdir(tmp_path / "My Set")
    result = curate(
        "probe", "verifiers:curate-my-set", "--quick", "--only", "forge/signals", "--only", "extract/right-answers"
    )
    assert result.exit_code == 0, result.output
    assert "(verifiers)" in result.output
    assert "0 of 5 hacks rewarded, 0 of 6 right submissions refused" in result.output


def test_an_environment_that_is_not_installed_is_one_sentence() -> None:
    result = curate("probe", "verifiers:no-such-environment")
    assert result.exit_code == 2
    assert "verifiers cannot load no-such-environment" in result.output
    assert result.output.startswith("Error: ")
    assert result.output.count("\n") == 1
