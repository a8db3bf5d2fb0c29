"""A short run of benchmarks/soak succeeds when it is started as a user starts it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
RUNS = 1200


@pytest.fixture(scope="module")
def soaked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("soak") / "soak.json"
    command = [sys.executable, "-m", "benchmarks.soak", str(RUNS), "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout)
    assert (done.returncode == 0) == summary["good"]
    return summary


def test_a_thousand_mixed_runs_get_the_right_verdicts(soaked: dict[str, Any]) -> None:
    assert soaked["steady"]["mistakes"] == []
    assert soaked["steady"]["runs"] >= RUNS


def test_nothing_that_a_sandbox_holds_grows_with_its_runs(soaked: dict[str, Any]) -> None:
    held = soaked["steady"]["held"]
    assert {name: ends for name, ends in held.items() if not ends["flat"]} == {}
    assert {"processes", "descriptors of workers", "mounts of zygotes", "cgroups", "temporary inodes"} <= held.keys()
    assert soaked["steady"]["processes_replaced"] == 0
    assert soaked["steady"]["left"] == []


def test_killed_workers_and_zygotes_cost_no_verdict_and_double_none(soaked: dict[str, Any]) -> None:
    assert soaked["deaths"]["kills"].keys() == {"worker", "zygote", "judge"}
    assert soaked["deaths"]["mistakes"] == []
    assert all(ends["flat"] for ends in soaked["deaths"]["held"].values()), soaked["deaths"]["held"]
    assert soaked["deaths"]["left"] == []


def test_a_killed_command_continues_to_the_same_verdicts(soaked: dict[str, Any]) -> None:
    assert sum(soaked["restarts"]["kills"].values()) > 0
    assert soaked["restarts"]["mistakes"] == []
    assert soaked["restarts"]["left"] == []
