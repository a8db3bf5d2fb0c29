"""A build that was killed at any moment is continued by the same command, with the same result."""

import json
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import forked
import pytest
from source_rows import FILES, taco_row, words, write_parquet

REPOSITORY = Path(__file__).parents[2]
TESTS = [(f"{n}\n", f"{n + 1}\n") for n in range(5)]
ADD = "import time; time.sleep(0.01); print(int(input()) + 1)"


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    rows = [taco_row(words(n), TESTS, ["print(0)", f"{ADD}  # {n}"]) for n in range(16)]
    rows += [taco_row(words(n) + " again", TESTS, [f"{ADD}  # {n}, again"]) for n in range(3)]
    return write_parquet(tmp_path_factory.mktemp("raw") / "train.parquet", rows)


@pytest.fixture(scope="module")
def undisturbed(raw, tmp_path_factory):
    """Return the content hash of an undisturbed build."""
    return finish(raw, tmp_path_factory.mktemp("undisturbed") / "out")


def command(raw, out, workers):
    code = "import sys; from cli import main; sys.exit(main())"
    options = [
        "build-dataset",
        "--source",
        f"taco={raw}",
        "--out",
        str(out),
        "--workers",
        str(workers),
        "--mutants",
        "2",
    ]
    return [sys.executable, "-c", code, *options]


def finish(raw, out, workers=2):
    done = forked.run(command(raw, out, workers), cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("content hash ")
    return json.loads((out / "manifest.json").read_text())["content_hash"]


def stopped(process):
    """Return the output of a process that is about to end."""
    _, error = process.communicate(timeout=60)
    assert "Traceback" not in error
    return process.returncode, error.strip().splitlines()[-1]


def records(out, stage="verify"):
    """Return the numbers and keys of the records that a build has kept so far; those of all stages for None."""
    found = []
    for path in sorted((out / ".work").glob("shards/[0-9][0-9][0-9][0-9][0-9]/rows.sqlite")):
        with closing(sqlite3.connect(path)) as file, suppress(sqlite3.OperationalError):
            condition = ("", ()) if stage is None else (" WHERE stage = ?", (stage,))
            found += file.execute(f"SELECT number, stage, key, record FROM record{condition[0]}", condition[1])
    return found


@pytest.mark.parametrize("kills", [[9], pytest.param([2, 15, 25, 45, 60], marks=pytest.mark.thorough)])
def test_a_build_killed_again_and_again_ends_as_an_undisturbed_one(raw, undisturbed, tmp_path, kills):
    """Each kill comes when the journals have so many records."""
    out = tmp_path / "killed"
    known: list[tuple[int, str, str, str]] = []
    for kill, n_records in enumerate(kills):
        process = forked.Popen(
            command(raw, out, workers=kill % 3 + 1),
            cwd=REPOSITORY,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while process.poll() is None and len(records(out, None)) < n_records:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        if (out / "manifest.json").exists():
            break
        # What was saved stays saved, with the time that it took, so it was not executed again.
        assert set(known) <= set(records(out))
        known = records(out)
    assert finish(raw, out) == undisturbed
    assert {path.name for path in out.iterdir()} == FILES


@pytest.mark.parametrize(
    "stage", ["write", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("card.write", "publish"))]
)
def test_a_build_killed_while_it_writes_is_written_again(raw, undisturbed, tmp_path, stage):
    out = tmp_path / "out"
    target = {"write": "writer.write_table", "card.write": "card.write", "publish": "output_folder.write_atomic"}[stage]
    module, _, function = target.partition(".")
    code = (
        "import os, sys; from cli import main\n"
        f"from curate.dataset import {module} as module\n"
        f"original, calls = module.{function}, []\n"
        "def dying(*arguments):\n"
        "    original(*arguments)\n"
        "    calls.append(1)\n"
        f"    if len(calls) == {2 if stage == 'publish' else 1}: os.kill(os.getpid(), 9)\n"
        f"module.{function} = dying\n"
        "main()"
    )
    options = command(raw, out, 2)[3:]
    killed = forked.run([sys.executable, "-c", code, *options], cwd=REPOSITORY, capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    assert finish(raw, out) == undisturbed


def test_ctrl_c_ends_a_build_in_one_line_and_the_same_command_continues(raw, undisturbed, tmp_path):
    out = tmp_path / "out"
    process = forked.Popen(
        command(raw, out, 1), cwd=REPOSITORY, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while not records(out):
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers, too
    assert stopped(process) == (1, f"Error: interrupted; progress is saved in {out}; run the same command to continue")
    known = records(out)
    assert finish(raw, out) == undisturbed
    assert 0 < len(known) < 19


def test_a_build_stops_on_a_full_disk_with_a_message_and_continues_once_there_is_room(tmp_path):
    """The disk holds 1.4 MB. The shard takes 1.0 MB with its log, and Parquet files need more than the rest."""
    rows = [taco_row(words(n, 4_000), TESTS, [f"{ADD}  # {n}"]) for n in range(16)]
    raw = write_parquet(tmp_path / "raw" / "train.parquet", rows)
    disk, saved = tmp_path / "disk", tmp_path / "saved"
    disk.mkdir()
    out = disk / "out"
    build = shlex.join(command(raw, out, 2))
    script = f"""
        mount -t tmpfs -o size=1400k none {disk} || exit 77
        {build} && exit 1
        mkdir {saved} && cp -r {out}/.work {saved} && mount -o remount,size=20m {disk} && {build}
    """
    own = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
    done = subprocess.run([*own, "sh", "-c", script], cwd=REPOSITORY, capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip("a small disk cannot be mounted: that needs root, or user namespaces")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert "No space left on device" in error
    assert error.endswith(f"Verified problems are saved in {out}; run the same command to continue.")
    assert len(records(saved)) == 16
    assert f"16 problems in {out}" in done.stdout


def test_a_disk_that_is_full_when_a_file_is_closed_is_explained_as_well(raw, tmp_path):
    out = tmp_path / "out"
    (out / ".work").mkdir(parents=True)
    (out / ".work" / "levels").symlink_to("/dev/full")
    done = forked.run(command(raw, out, 1), cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(f"are saved in {out}; run the same command to continue.")
    (out / ".work" / "levels").unlink()
    assert finish(raw, out)
