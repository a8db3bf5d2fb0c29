"""`curate difficulty` works with real models, one run by vLLM in the command's own process, one behind a server."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import forked
import pytest
import tiny_world
from canned_server import answering
from curate_command import curate

from curate.difficulty import table

ROOT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-c", "from cli import main; main()", "difficulty"]
INCLUDE = ["--include", "unverified"]  # LiveCodeBench publishes no references
SERVED = ["--model", "m", "--base-url", "http://127.0.0.1:9/v1"]
SAMPLING = [*INCLUDE, "--max-tokens", str(tiny_world.MAX_TOKENS), "--workers", "2"]


@pytest.fixture
def dataset(six_problems, tmp_path):
    return shutil.copytree(six_problems, tmp_path / "dataset")


def finish(*words, environment=()):
    done = forked.run(
        [*COMMAND, *map(str, words)],
        cwd=ROOT,
        env={**os.environ, **tiny_world.ENVIRONMENT, **dict(environment)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done


def rows(dataset):
    return {row["id"].partition("/")[2]: row for row in table.read(dataset)}


@pytest.fixture(scope="module")
def measured(six_problems, tiny_model, tmp_path_factory):
    """Return a dataset, a copy with the problems in a band, and the command that measured the model in its process."""
    folder = tmp_path_factory.mktemp("measured")
    dataset, out = shutil.copytree(six_problems, folder / "dataset"), folder / "out"
    band = ["--solve-rate", "0.05:0.85", "--out", out]
    done = finish(
        dataset, "--model", tiny_model, "--k", 4, "--n", 16, *SAMPLING, *band,
        environment={"VLLM_ENABLE_V1_MULTIPROCESSING": "0"},
    )  # fmt: skip
    return dataset, out, done


@pytest.mark.thorough
def test_a_model_in_this_process_is_measured_and_its_band_is_kept(measured, tiny_model, tmp_path):
    dataset, out, done = measured
    found = rows(dataset)
    assert found["sum"]["n_correct"] >= 14
    assert found["double"]["n_correct"] >= 14
    assert 1 <= found["product"]["n_correct"] <= 13
    assert found["product"]["pass_at_1"] < found["product"]["pass_at_k"]
    assert found["difference"]["n_correct"] == found["larger"]["n_correct"] == found["smaller"]["n_correct"] == 0
    assert found["larger"]["n_truncated"] >= 14
    assert found["smaller"]["n_no_code"] >= 14
    assert {row["id"] for row in table.read(out)} == {row["id"] for row in table.read(dataset)}
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["model", "problems", "samples", "pass@1", "pass@k", "truncated", "no", "code"]
    assert lines[1].split()[:3] == [str(tiny_model), "6", "96"]
    assert "1 problems in" in done.stdout
    assert "Warning: only 1 of 6 problems are left" in done.stderr
    # The model may be gone by now, and so may vLLM: nothing is sampled for another band.
    again = curate(
        "difficulty",
        dataset,
        "--model",
        tiny_model,
        "--include",
        "unverified",
        "--solve-rate",
        "0.86:",
        "--out",
        tmp_path / "easy",
    )
    assert again.exit_code == 0, again.output
    assert "2 problems in" in again.stdout


@pytest.mark.thorough
def test_a_command_killed_repeatedly_ends_like_an_undisturbed_one(
    dataset, six_problems, tiny_model, model_server, tmp_path
):
    options = ["--model", tiny_model, "--base-url", model_server, "--k", 4, "--n", 10, *SAMPLING]
    options += ["--engine", "concurrency=4"]
    undisturbed = shutil.copytree(six_problems, tmp_path / "undisturbed")
    finish(undisturbed, *options)
    paid_before = answered(model_server)
    known = 0
    for _ in range(2):
        process = forked.Popen(
            [*COMMAND, str(dataset), *map(str, options)], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while process.poll() is None and saved(dataset) < known + 10:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert saved(dataset) >= known  # nothing that was saved is drawn anew
        known = saved(dataset)
    finish(dataset, *options)
    assert rows(dataset) == rows(undisturbed)
    # What was not saved was under way when the kill came: at most what is asked at once, each time.
    assert answered(model_server) - paid_before <= 6 * 10 + 2 * 2 * 4
    assert known > 0


def saved(dataset):
    """Return the number of complete answers on disk."""
    return sum(path.read_bytes().count(b"\n") for path in (dataset / "difficulty" / ".work").glob("*.answers.jsonl"))


def answered(base_url):
    with urllib.request.urlopen(base_url.removesuffix("/v1") + "/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("vllm:request_success_total{"))


@pytest.mark.thorough
def test_a_server_gives_the_same_result_as_the_model_in_process(dataset, measured, tiny_model, model_server):
    finish(dataset, "--model", tiny_model, "--k", 4, "--n", 16, *SAMPLING, "--base-url", model_server)
    assert rows(dataset) == rows(measured[0])


def test_an_interrupted_command_says_that_the_same_command_continues(dataset, tiny_model, model_server):
    options = ["--model", tiny_model, "--base-url", model_server, "--n", 400, *SAMPLING]
    process = forked.Popen(
        [*COMMAND, str(dataset), *map(str, options)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and not saved(dataset):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"interrupted; the samples are in {dataset}; the same command continues" in words
    assert "Traceback" not in words


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param([], "give a --model to sample, a --solve-rate to filter by, or both", id="nothing to do"),
        pytest.param(["--model", "m", "--out", "x"], "--out needs --solve-rate. Give both", id="no band"),
        pytest.param(["--solve-rate", "0:1"], "--out needs --solve-rate. Give both", id="no folder"),
        pytest.param(["--solve-rate", "1:0", "--out", "x"], "pass MIN:MAX", id="an empty band"),
        pytest.param(["--solve-rate", "0:1", "--out", "x"], "has no solve rates", id="nothing sampled"),
        pytest.param([*SERVED, "--k", "8", "--n", "4"], "give a larger --n", id="n below k"),
        pytest.param(["--model", "/no/model"], "/no/model is not the folder of a model", id="no model"),
        pytest.param(SERVED, "vllm serve m", id="no server"),
        pytest.param([*SERVED, "--engine", "dtype=half"], "for vLLM in this process", id="an option of vLLM"),
        pytest.param(
            [*SERVED, "--engine", "concurency=9"], "concurency is for vLLM in this process", id="an unknown option"
        ),
        pytest.param([*SERVED, "--engine", "concurrency=many"], "must be an integer above 0", id="no number"),
        pytest.param([*SERVED, "--engine", "concurrency"], "--engine concurrency: pass KEY=VALUE", id="no value"),
        pytest.param([*SERVED, "--template", "/no/file"], "/no/file: No such file", id="no template"),
        pytest.param(
            [*SERVED, "--template-arg", "enable_thinking=False"], "write enable_thinking=false", id="Python's False"
        ),
        pytest.param(
            ["--model", "m", "--base-url", "localhost"],
            "is not an address such as http://localhost:8000/v1",
            id="no address",
        ),
        pytest.param(["--model", "m", "--temperature", "3"], "0<=x<=2", id="too hot"),
    ],
)
def test_mistakes_are_explained_without_a_traceback(dataset, arguments, message):
    result = curate("difficulty", dataset, *arguments, *INCLUDE)
    assert isinstance(result.exception, SystemExit)
    assert result.exit_code != 0
    assert message in result.stderr


def test_without_vllm_the_error_says_what_to_install(dataset, tmp_path):
    (tmp_path / "vllm.py").write_text("raise ImportError(\"No module named 'vllm'\")")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    done = subprocess.run(
        [*COMMAND, str(dataset), "--model", str(tmp_path / "model"), *INCLUDE],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "Type: pip install " in done.stderr
    assert " vllm==" in done.stderr
    assert "--base-url" in done.stderr
    assert "Traceback" not in done.stderr


def test_more_samples_are_asked_with_the_fields_of_the_first(dataset):
    with answering("I do not know.") as (url, asked):
        words = [dataset, "--model", "m", "--base-url", url, *SAMPLING, "--k", 1]
        assert curate("difficulty", *words, "--request", "top_k=20").exit_code == 0
        done = curate("difficulty", *words, "--n", 2, "--gpus", 4, "--price-gpu-hour", 3600, check=True)
        assert len(asked) == 12
        line = next(line for line in done.output.splitlines() if line.startswith("m: GPU cost of this call: "))
        problem, sample, total = (float(n.replace(",", "")) for n in re.findall(r"[\d.,]*\d(?= )", line)[:3])
        assert problem == pytest.approx(2 * sample, rel=0.01)
        assert total == pytest.approx(6 * sample, rel=0.01)  # this call drew only the second sample of six problems
        assert {request["top_k"] for _, request in asked} == {20}
        other = curate("difficulty", *words, "--n", 3, "--request", "top_k=5")
    assert other.exit_code == 1
    assert 'have engine {"request": {"top_k": 20}}, not {"request": {"top_k": 5}}' in other.output


def test_a_folder_without_problems_is_refused(tmp_path):
    result = curate("difficulty", tmp_path, "--model", "m")
    assert result.exit_code == 1
    assert "Pass the folder of a dataset that curate built" in result.stderr


def test_a_damaged_table_is_named(dataset):
    (dataset / "difficulty").mkdir()
    (dataset / "difficulty" / "train-00000-of-00001.parquet").write_bytes(b"PAR1 no more")
    result = curate("difficulty", dataset, "--solve-rate", "0:1", "--out", dataset.parent / "out")
    assert result.exit_code == 1
    assert "train-00000-of-00001.parquet: not a table of curate difficulty" in result.stderr


def test_the_manifest_of_the_copy_records_the_filter(dataset, tiny_model, model_server, tmp_path):
    options = ["--model", tiny_model, "--base-url", model_server, "--k", 2, *SAMPLING]
    finish(dataset, *options, "--solve-rate", "0.5:", "--out", tmp_path / "out")
    (rule,) = json.loads((tmp_path / "out" / "manifest.json").read_text())["plan"]["solve_rate"]
    assert rule["band"] == "0.5:1"
    assert rule["models"][str(tiny_model)]["temperature"] == 0.6
