"""benchmarks/gpu, which is for one GPU, does everything with tiny shapes on a CPU, but for what a CPU does not have."""

import json
import re
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("vllm", reason="vllm is not installed")

import forked

from benchmarks.gpu.__main__ import GPUS, SECONDS, TOTAL_SECONDS, Table, main, run_check
from benchmarks.gpu.run import write_configuration
from benchmarks.gpu.setup import FULL, CheckEnvironment
from benchmarks.gpu.thresholds import FAIL, PASS, SKIP, SLOW, THRESHOLDS
from train.config import read_config
from train.run.fit import check_memory
from train.run.memory import Machines

ROOT = Path(__file__).parents[2]
ONLY_ON_GPUS = {
    "machine": {"gpu", "driver", "free_share", "host_free_gib", "disk_free_gib"},
    "learner": {"update_mfu", "peak_gib", "peak_of_plan", "device_of_plan", "held_of_plan"},
    "lora": {"peak_gib", "peak_of_plan"},
    "engine": {"overhead_of_plan", "lent_gib", "sleeping_of_plan", "not_regained_gib"},
}


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """Return what all checks print, and what they write."""
    folder = tmp_path_factory.mktemp("gpu")
    command = [sys.executable, "-m", "benchmarks.gpu", "--cpu", "--python", forked.python()]
    command += ["--folder", str(folder / "made"), "--out", str(folder / "gpu.json")]
    done = forked.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(path.name for path in (folder / "made").iterdir()) == ["model", "prompts.jsonl", "run.toml"]
    return done.stdout, json.loads((folder / "gpu.json").read_text())


def test_every_figure_is_measured_and_passes(checked):
    printed, found = checked
    results = {(each["check"], each["figure"]): each["result"] for each in found["figures"]}
    for check, thresholds in THRESHOLDS.items():
        for figure in thresholds:
            is_skipped = check in GPUS or figure in ONLY_ON_GPUS.get(check, ())
            assert results.pop((check, figure)) == (SKIP if is_skipped else PASS), printed
            assert re.search(rf"^{check} +{figure} .* {SKIP if is_skipped else PASS}\b", printed, re.MULTILINE)
    assert results == {}
    assert {each["status"] for each in found["checks"].values()} == {0}
    assert re.search(r"^\d+ pass, 0 slow, 0 fail, \d+ skip in \d+ s; ", printed, re.MULTILINE)


def test_at_full_size_the_run_is_accepted_and_fits_an_h100(tmp_path):
    from transformers import Qwen2Config

    Qwen2Config(**FULL.shape, architectures=["Qwen2ForCausalLM"]).save_pretrained(tmp_path / "model")
    run = read_config(write_configuration(CheckEnvironment(tmp_path, FULL, sys.executable)))
    assert (run.engine.kind, run.model.dtype, run.optimizer.row_tokens) == ("vllm", "bfloat16", 20_480)
    check_memory(run, Machines(1, gpu_gb=80.0, host_gb=64.0))


def test_a_check_has_its_seconds_and_leaves_no_process(capsys):
    table, n_threads = Table(on_cpu=False), threading.active_count()
    command = ["sh", "-c", """echo 'figure: ["gpu", "one"]'; echo last words; sleep 600"""]
    end = run_check(command, 1.0, True, lambda name, value: table.add("machine", name, value))
    table.add_missing("machine", FAIL, end.failure)
    assert end.status is None
    assert threading.active_count() == n_threads  # the one that reads has come to an end, so nobody can write any more
    assert end.last_lines == ["last words"]
    assert [row["result"] for row in table.rows] == [PASS] + [FAIL] * (len(THRESHOLDS["machine"]) - 1)
    assert table.rows[-1]["reason"] == "not measured: timeout after 1 s"


def test_what_a_check_printed_before_it_crashed_is_shown(tmp_path, capsys):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'CUDA error: an illegal memory access was encountered'; exit 3\n")
    python.chmod(0o755)
    out = tmp_path / "gpu.json"
    status = main(["--cpu", "--python", str(python), "--folder", str(tmp_path), "--out", str(out), "kernels"])
    assert status == 1
    printed = capsys.readouterr().out
    assert printed.count("| CUDA error: an illegal memory access was encountered") == 2  # of machine and kernels
    assert {row["check"] for row in json.loads(out.read_text())["figures"]} == {"machine", "kernels"}
    assert printed.count("fail  not measured: exit status 3") == len(THRESHOLDS["machine"]) + len(THRESHOLDS["kernels"])


@pytest.mark.parametrize(
    ("figure", "value", "result"),
    [
        ("tokens_per_second", 12_000.0, PASS),
        ("tokens_per_second", 9_000.0, SLOW),
        ("sampled_parity", 1.2, FAIL),
        ("sampled_parity", float("nan"), FAIL),
        ("lent_gib", None, SKIP),
    ],
)
def test_what_works_slowly_does_not_fail(figure, value, result):
    assert THRESHOLDS["engine"][figure].judge(value, on_cpu=False) == result


def test_checks_on_one_gpu_have_eight_minutes_together():
    assert sum(seconds for check, seconds in SECONDS.items() if check not in GPUS) == TOTAL_SECONDS == 8 * 60
    assert SECONDS.keys() == THRESHOLDS.keys()


def test_a_check_that_does_not_exist_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["--cpu", "kernel"])
    assert "unknown check kernel; choose from machine, kernels, learner" in capsys.readouterr().err
