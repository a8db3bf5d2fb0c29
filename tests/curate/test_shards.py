"""Shards of a build may be worked on by processes that are killed, and in any number: the dataset is the same."""

import json
import os
import shutil
import signal
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

import curate.shards
from curate import BuildOptions, build, pipeline
from curate.errors import CurateError
from curate.problem import Problem, Rejection, encode_problem
from curate.work import FILE, WorkFile, create_work_file
from sandbox import Case, SandboxOptions, Suite

OPTIONS = BuildOptions(mutants=0, cross_checks=0)
N_ROWS = 900
FIELDS = {"id": "id", "statement": "statement", "inputs": "inputs", "outputs": "outputs"}


def statement(number: int) -> str:
    words = [f"word{number * 31 % 97}x{place * number % 89}" for place in range(60)]
    return " ".join(["Print", "the", "sum", "of", *words])


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file in which each tenth row has the id of an earlier one, and each seventh its statement."""
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    with path.open("w") as file:
        for number in range(N_ROWS):
            row = {"id": f"p{number - 300 * (number % 10 == 9 and number > 300)}"}
            row["statement"] = statement(number - 350 * (number % 7 == 0 and number > 350))
            row["inputs"] = [f"{number} {place}" for place in range(6)]
            row["outputs"] = [str(number + place) for place in range(6)]
            file.write(json.dumps(row) + "\n")
    return path


def built(rows: Path, out: Path, sandbox: SandboxOptions | None = None) -> tuple[str, object]:
    location = {"location": str(rows), "fields": FIELDS}
    manifest = build([("made", location)], out, OPTIONS, sandbox=sandbox or SandboxOptions(workers=2))
    return manifest.content_hash, manifest.counts


@pytest.fixture(scope="module")
def undivided(rows: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, object]:
    return built(rows, tmp_path_factory.mktemp("undivided") / "out")


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have builds read shards of a hundred rows, in other processes."""
    monkeypatch.setattr(curate.shards, "_MIN_POOL_BYTES", 0)
    monkeypatch.setattr(pipeline, "plan_shards", partial(curate.shards.plan_shards, max_rows=100))


def shard_folders(out: Path) -> list[Path]:
    below = ((Path(folder), name) for folder, names, _ in os.walk(out.parent) for name in names)  # while they vanish
    return sorted(folder / name for folder, name in below if folder.name == "shards" and name[-1].isdigit())


def test_a_build_in_many_shards_is_the_build_in_one(rows, undivided, small_shards, tmp_path):
    assert built(rows, tmp_path / "out") == undivided


def test_a_build_whose_shard_processes_are_killed_says_so_and_continues(rows, undivided, small_shards, tmp_path):
    stop, killed = threading.Event(), []

    def kill_workers() -> None:
        while not stop.is_set():
            with suppress(psutil.NoSuchProcess):
                for process in psutil.Process().children(recursive=True):
                    of_server = process.ppid() != os.getpid()  # which starts the processes of shards
                    of_shards = of_server and "multiprocessing" in " ".join(process.cmdline())
                    if of_shards and shard_folders(tmp_path / "out"):
                        process.send_signal(signal.SIGKILL)
                        killed.append(process.pid)
                        return
            time.sleep(0.005)

    killer = threading.Thread(target=kill_workers)
    killer.start()
    try:
        with pytest.raises(CurateError, match="the process of a shard was killed.*run the same command to continue"):
            built(rows, tmp_path / "out")
    finally:
        stop.set()
        killer.join()
    assert killed
    assert built(rows, tmp_path / "out", SandboxOptions(workers=1)) == undivided


def test_a_damaged_work_file_is_reported_with_what_to_delete(rows, undivided, small_shards, tmp_path, monkeypatch):
    write = pipeline._write_tables

    def damage(state, final):
        file = shard_folders(tmp_path / "out")[3] / "rows.sqlite"
        content = file.read_bytes()
        file.write_bytes(content[:4096] + os.urandom(len(content) - 4096))
        return write(state, final)

    monkeypatch.setattr(pipeline, "_write_tables", damage)
    with pytest.raises(CurateError, match="is damaged .* Delete") as caught:
        built(rows, tmp_path / "out")
    monkeypatch.undo()
    shutil.rmtree(str(caught.value).partition("a work file in ")[2].partition(" is damaged")[0])
    assert built(rows, tmp_path / "out") == undivided


def test_a_cluster_works_on_the_shards(rows, undivided, small_shards, ray_cluster, tmp_path, monkeypatch):
    on_cluster = curate.shards._map_on_ray
    functions = []
    monkeypatch.setattr(
        curate.shards,
        "_map_on_ray",
        lambda ray, function, calls: functions.append(function) or on_cluster(ray, function, calls),
    )
    ray_cluster.add_node()
    on_ray = SandboxOptions(backend="ray", address=ray_cluster.address)
    assert built(rows, tmp_path / "out", on_ray) == undivided
    assert functions == [curate.shards.read_shard]


def test_a_cluster_that_does_not_see_the_files_leaves_the_shards_to_this_machine(
    rows, undivided, small_shards, ray_cluster, tmp_path, monkeypatch, caplog
):
    ray_cluster.add_node()
    monkeypatch.setattr(curate.shards, "_do_all_exist", lambda paths: False)
    monkeypatch.setattr(curate.shards, "_map_on_ray", None)
    assert built(rows, tmp_path / "out", SandboxOptions(backend="ray", address=ray_cluster.address)) == undivided
    assert "reading the shards on this machine" in caplog.text


def test_problems_that_take_long_are_examined_first_since_the_last_ones_leave_workers_idle(tmp_path):
    problems = [
        Problem(f"made/{number}", "made", "", Suite([Case("", "")] * n_tests), None, "", cpu_seconds=seconds)
        for number, (seconds, n_tests) in enumerate([(None, 5), (0.2, 5), (9.5, 5), (None, 80)])
    ]
    with create_work_file(tmp_path / "00000") as new:
        for problem in problems:
            new.add(problem, encode_problem(problem), 0)
        new.add(Rejection("made/4", "made", "parse", "unparsable"))
    with WorkFile(tmp_path / "00000" / FILE) as file:
        assert file.list_pending(0, include_rejected=True) == [2, 1, 3, 0]
        assert file.count_pending(0, include_rejected=True) == 4
