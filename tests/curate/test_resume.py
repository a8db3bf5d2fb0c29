"""Killed at any moment, the same command continues: less and less is left, and the result is the same."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from native import taco_row, words, write_parquet

from curate.workspace import PARTS

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
    """Content hash and seconds of a build that nobody disturbs."""
    started = time.monotonic()
    return finish(raw, tmp_path_factory.mktemp("undisturbed") / "out"), time.monotonic() - started


def command(raw, out, workers):
    code = "import sys; from cli import main; sys.exit(main())"
    options = ["build-dataset", "--source", f"taco={raw}", "--out", str(out), "--workers", str(workers)]
    return [sys.executable, "-c", code, *options]


def finish(raw, out, workers=2):
    done = subprocess.run(command(raw, out, workers), cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("content hash ")
    return json.loads((out / "manifest.json").read_text())["content_hash"]


def records(out):
    path = out / ".work" / "findings.jsonl"
    whole = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [json.loads(line)[0] for line in whole]


def test_a_build_killed_again_and_again_ends_as_an_undisturbed_one(raw, undisturbed, tmp_path):
    content_hash, duration = undisturbed
    out = tmp_path / "killed"
    rng = random.Random(0)
    known: list[str] = []
    for kill in range(5):
        process = subprocess.Popen(
            command(raw, out, workers=kill % 3 + 1),
            cwd=REPOSITORY,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(rng.uniform(0.2, 1.0) * duration)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        if (out / "manifest.json").exists():
            break
        assert records(out)[: len(known)] == known  # what was saved stays saved
        known = records(out)
    assert finish(raw, out) == content_hash
    assert len(set(known)) == len(known)  # and is not executed again
    assert {path.name for path in out.iterdir()} == {*PARTS, "manifest.json"}


@pytest.mark.parametrize("stage", ["write", "card.write", "publish"])
def test_a_build_killed_while_it_writes_is_written_again(raw, undisturbed, tmp_path, stage):
    out = tmp_path / "out"
    target = {"write": "output.write_table", "card.write": "card.write", "publish": "workspace.write_whole"}[stage]
    module, _, function = target.partition(".")
    code = (
        "import os, sys; from cli import main\n"
        f"from curate import {module} as module\n"
        f"original, calls = module.{function}, []\n"
        "def dying(*arguments):\n"
        "    original(*arguments)\n"
        "    calls.append(1)\n"
        f"    if len(calls) == {2 if stage == 'publish' else 1}: os.kill(os.getpid(), 9)\n"
        f"module.{function} = dying\n"
        "main()"
    )
    options = command(raw, out, 2)[3:]
    killed = subprocess.run([sys.executable, "-c", code, *options], cwd=REPOSITORY, capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    assert finish(raw, out) == undisturbed[0]
