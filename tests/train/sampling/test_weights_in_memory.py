"""Weights in memory reach other processes, and nothing is left of them, however their writer ends."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from safetensors.torch import load_file  # noqa: E402

from train.sampling.restart_budget import RestartBudget  # noqa: E402

ROOT = Path(__file__).parents[3]
WRITER = """
import time, torch
from train.sampling.weights_in_memory import WeightsInMemory
tensor = torch.arange(1000.0)
print(WeightsInMemory([("w", tensor), ("tied", tensor), ("half", tensor.view(10, 100).bfloat16().T)]).path, flush=True)
time.sleep(600)
"""


def test_another_process_reads_the_weights_and_a_killed_writer_leaves_no_file():
    files = set(Path("/dev/shm").glob("curate-*"))
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER], env={"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
    )
    try:
        path = Path(writer.stdout.readline().strip())
        weights, tensor = load_file(path), torch.arange(1000.0)
        assert weights["w"].equal(tensor)
        assert weights["tied"].equal(tensor)
        assert weights["half"].equal(tensor.view(10, 100).bfloat16().T)
        assert set(Path("/dev/shm").glob("curate-*")) == files
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        assert not path.exists()
    finally:
        writer.kill()
        writer.communicate()


def test_engines_may_be_started_again_so_many_times_within_an_hour():
    budget = RestartBudget(2)
    assert [budget.spend(now) for now in (0, 10, 20, 3000, 3601, 3605, 3611)] == [
        True, True, False, False, True, False, True,
    ]  # fmt: skip
    assert not RestartBudget(0).spend(0)
