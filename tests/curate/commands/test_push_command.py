import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from curate_command import curate
from exported import problems, write

ROOT = Path(__file__).parents[3]


@pytest.fixture
def dataset(tmp_path):
    folder = write(tmp_path / "built", problems())
    (folder / "difficulty").mkdir()
    (folder / "difficulty" / "train-00000-of-00001.parquet").write_bytes(b"PAR1")
    for work in (folder / ".work", folder / "difficulty" / ".work"):
        work.mkdir()
        (work / "problems.jsonl").write_text("{}")
    (folder / "notes.txt").write_text("mine")
    return folder


def push(dataset, *words, **variables):
    """Run the command in a process of its own, with a Hub address at which nothing listens."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    environment |= {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(dataset / ".work")} | variables
    command = [sys.executable, "-c", "from cli import main; main()", "push", str(dataset), "someone/problems", *words]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def test_a_dry_run_lists_what_would_be_uploaded_and_uses_no_network(dataset):
    result = push(dataset, "--dry-run", "--public", "--revision", "v2")
    assert result.returncode == 0, result.stderr
    *files, total, where = [line.split(maxsplit=1) for line in result.stdout.splitlines()]
    assert [name for _, name in files] == [
        "data/train-00000-of-00001.parquet",
        "rejected/train-00000-of-00001.parquet",
        "evidence/train-00000-of-00001.parquet",
        "difficulty/train-00000-of-00001.parquet",
        "README.md",
        "manifest.json",
        "report.html",
        "report.json",
        "digests.parquet",
    ]
    sizes = [int(size.replace(",", "")) for size, _ in files]
    assert sizes == [(dataset / name).stat().st_size for _, name in files]
    assert total == [f"{sum(sizes):,}", "bytes in 9 files"]
    assert " ".join(where) == (
        "nothing was sent; the target is dataset someone/problems, revision v2, "
        "which would be created as public if missing"
    )


def test_a_missing_token_is_explained_with_how_to_get_one(dataset):
    result = push(dataset)
    assert result.returncode == 1
    assert "Run hf auth login" in result.stderr
    assert "committed" not in result.stdout


def test_a_hub_that_cannot_be_reached_is_reported(dataset):
    result = push(dataset, HF_TOKEN="hf_made_up")
    assert result.returncode == 1
    assert "someone/problems: nothing was committed" in result.stderr
    assert "Check the network" in result.stderr
    assert "http://127.0.0.1:9" in result.stderr
    assert "Traceback" not in result.stderr
    assert "hf_made_up" not in result.stderr
    assert "committed:" not in result.stdout


@pytest.mark.parametrize("repo", ["problems", "a/b/c", "some one/problems", "owner/name@main", ""])
def test_an_invalid_name_is_refused(dataset, repo):
    result = curate("push", dataset, repo, "--dry-run")
    assert result.exit_code == 1
    assert "Pass OWNER/NAME" in result.stderr


def test_a_folder_that_is_not_finished_is_not_pushed(dataset):
    (dataset / "manifest.json").unlink()
    result = curate("push", dataset, "someone/problems", "--dry-run")
    assert result.exit_code == 1
    assert "is not finished" in result.stderr


@pytest.mark.parametrize("manifest", [{"export": {}, "counts": {}}, []])
def test_a_folder_that_is_not_a_dataset_is_not_pushed(tmp_path, manifest):
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    result = curate("push", tmp_path, "someone/problems", "--dry-run")
    assert result.exit_code == 1
    assert "is not a curate dataset" in result.stderr
