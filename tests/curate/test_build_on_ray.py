"""A cluster of several nodes builds the same dataset as one machine, even if a node is lost."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from curate.pipeline import BuildOptions, build

ROOT = Path(__file__).parents[2]
SOURCES = [(name, str(ROOT / "examples" / "raw" / name)) for name in ("taco", "synthetic1", "livecodebench")]


@pytest.fixture(scope="module")
def built_here(tmp_path_factory):
    """Return the folder of the sample, built on this machine, and its content hash."""
    out = tmp_path_factory.mktemp("local") / "out"
    return out, build(SOURCES, out, BuildOptions()).content_hash


@pytest.fixture(scope="module")
def content_hash(built_here):
    return built_here[1]


def curate(*arguments):
    code = "import sys; from cli import main; sys.exit(main())"
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def build_dataset(cluster, out):
    sources = [word for name, place in SOURCES for word in ("--source", f"{name}={place}")]
    return curate("build-dataset", *sources, "--out", out, "--backend", "ray", "--address", cluster.address)


def n_records(out):
    """Return the number of records that a build has kept so far."""
    count = 0
    for path in (out / ".work").glob("shards/[0-9][0-9][0-9][0-9][0-9]/rows.sqlite"):
        with closing(sqlite3.connect(path)) as file, suppress(sqlite3.OperationalError):
            count += file.execute("SELECT count(*) FROM record").fetchone()[0]
    return count


def is_supervisor(process):
    try:
        return "ray::NodeSupervisor" in "".join(process.cmdline())
    except psutil.Error:  # it has just ended
        return False


def kill_a_node():
    supervisor = next(filter(is_supervisor, psutil.Process().children(recursive=True)))
    os.kill(supervisor.ppid(), signal.SIGKILL)
    supervisor.kill()


@pytest.mark.thorough
def test_a_cluster_builds_the_same_dataset_as_this_machine(cluster, built_here, tmp_path):
    here, content_hash = built_here
    said, errors = build_dataset(cluster, tmp_path / "out").communicate()
    assert said.splitlines()[-1] == f"content hash {content_hash}", errors
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert (manifest["content_hash"], manifest["backend"]) == (content_hash, "ray")
    assert pq.read_table(tmp_path / "out" / "evidence").equals(pq.read_table(here / "evidence"))


@pytest.mark.thorough
def test_a_node_killed_while_a_dataset_is_built_changes_nothing(cluster, content_hash, tmp_path):
    out = tmp_path / "out"
    building = build_dataset(cluster, out)
    while not n_records(out):
        assert building.poll() is None, building.stderr.read()
        time.sleep(0.01)
    kill_a_node()
    said, errors = building.communicate()
    assert said.splitlines()[-1] == f"content hash {content_hash}", errors
    assert "lost node" in errors
    cluster.add_node()


@pytest.mark.thorough
def test_judge_writes_the_same_verdicts_as_on_this_machine(cluster, tmp_path):
    records = ROOT / "examples" / "submissions.jsonl"
    here, there = tmp_path / "here.jsonl", tmp_path / "there.jsonl"
    summary, _ = curate("judge", records, "--out", here).communicate()
    said, errors = curate(
        "judge", records, "--out", there, "--backend", "ray", "--address", cluster.address
    ).communicate()
    assert said.splitlines()[0] == summary.splitlines()[0], errors
    assert verdicts(there) == verdicts(here)


def verdicts(path):
    answers = map(json.loads, path.read_text().splitlines())
    return [(a["id"], a.get("verdict"), [test["verdict"] for test in a.get("tests", ())]) for a in answers]


def test_a_wrong_address_is_explained(tmp_path):
    records = ROOT / "examples" / "submissions.jsonl"
    judging = curate("judge", records, "--out", tmp_path / "out.jsonl", "--backend", "ray", "--address", "127.0.0.1:1")
    said, errors = judging.communicate()
    assert judging.returncode == 1
    assert errors.startswith("Error: cannot connect to a Ray cluster at 127.0.0.1:1")
    assert "Traceback" not in errors
