"""Data sets are downloaded from the Hub; here, a server on loopback speaks as much of its protocol as needed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import hub
import pytest
from source_rows import taco_row, words, write_parquet

ROOT = Path(__file__).parents[3]


@pytest.fixture
def files(tmp_path):
    rows = {"train": taco_row(words(0)), "test": taco_row(words(1))}
    content = {"README.md": b"card", "notes.bin": b"large"}
    for split, row in rows.items():
        name = f"data/{split}-00000-of-00001.parquet"
        content[name] = write_parquet(tmp_path / name, [row]).read_bytes()
    return content


def curate(address, folder, *words):
    """Run the command in a process of its own, since the Hub client reads its settings when it is imported."""
    settings = {"HF_ENDPOINT": address, "HF_HOME": str(folder / "cache"), "HF_HUB_DISABLE_XET": "1"}
    command = [sys.executable, "-c", "from cli import main; main()", "build-dataset", *words]
    return subprocess.run(command, cwd=ROOT, env=os.environ | settings, capture_output=True, text=True)


def test_a_pinned_revision_is_downloaded_and_recorded(files, tmp_path):
    out = tmp_path / "out"
    with hub.serving("somebody/taco", files, ("main", "v2")) as address:
        done = curate(address, tmp_path, "--source", "taco=somebody/taco@v2", "--out", str(out))
    assert done.returncode == 0, done.stderr
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["locations"] == {"taco": {"location": "somebody/taco@v2", "revision": hub.COMMIT}}
    assert [file["name"] for file in manifest["plan"]["inputs"]["taco"]] == ["train-00000-of-00001.parquet"]
    cached = {path.name for path in (tmp_path / "cache").rglob("snapshots/*/**/*") if path.is_file()}
    assert cached == {"train-00000-of-00001.parquet", "test-00000-of-00001.parquet"}


def test_only_the_files_asked_for_are_downloaded(files, tmp_path):
    location = "taco=somebody/taco?files=data/test*"
    with hub.serving("somebody/taco", files) as address:
        done = curate(address, tmp_path, "--source", location, "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    cached = {path.name for path in (tmp_path / "cache").rglob("snapshots/*/**/*") if path.is_file()}
    assert cached == {"test-00000-of-00001.parquet"}


def test_a_missing_revision_is_an_error_that_names_the_data_set(files, tmp_path):
    with hub.serving("somebody/taco", files) as address:
        done = curate(address, tmp_path, "--source", "taco=somebody/taco@v9", "--out", str(tmp_path / "out"))
    assert done.returncode == 1
    assert "Error: somebody/taco@v9: no such file or folder, and the download from the Hub failed" in done.stderr
    assert "Traceback" not in done.stderr
