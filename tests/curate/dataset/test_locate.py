"""A dataset that was pushed to the Hub is used like a folder; a server on loopback speaks the Hub's protocol."""

import json
import os
import subprocess
import sys
from pathlib import Path

import hub
import pytest
from exported import problems, write

ROOT = Path(__file__).parents[3]
NAME = "someone/problems"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = write(tmp_path_factory.mktemp("built") / "out", problems())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def curate(address, folder, *words):
    return run(address, folder, [sys.executable, "-m", "cli", *map(str, words)])


def run(address, folder, command):
    """Run a process of its own, since the Hub client reads its settings when it is imported."""
    settings = {"HF_ENDPOINT": address, "HF_HOME": str(folder / "cache"), "HF_HUB_DISABLE_XET": "1"}
    settings |= {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=os.environ | settings, capture_output=True, text=True)


SHOWN = {
    ("inspect", f"{NAME}@v2", "taco/sum"): "Statement of sum.",
    ("stats", f"{NAME}@v2"): "content hash",
    ("diff", f"{NAME}@v2", NAME): "Same content",
    ("export", f"{NAME}@v2", "--to", "jsonl", "--out", "out"): "6 of 8 problems in out",
    ("push", f"{NAME}@v2", "me/copy", "--dry-run"): "nothing was sent; the target is dataset me/copy",
}
IN_ONE_PROCESS = """
import json, sys
from click.testing import CliRunner
from cli import main
done = [CliRunner().invoke(main, words) for words in json.loads(sys.argv[1])]
print(json.dumps([(each.exit_code, each.output) for each in done]))
"""


@pytest.fixture(scope="module")
def printed(files, tmp_path_factory):
    """Return the exit status and the output of each command in SHOWN."""
    command = [sys.executable, "-c", IN_ONE_PROCESS, json.dumps(list(SHOWN))]
    with hub.serving(NAME, files, ("main", "v2")) as address:
        done = run(address, tmp_path_factory.mktemp("commands"), command)
    assert done.returncode == 0, done.stderr
    return dict(zip(SHOWN, json.loads(done.stdout.splitlines()[-1]), strict=True))


@pytest.mark.parametrize("words", SHOWN, ids=lambda words: words[0])
def test_a_command_reads_a_pinned_revision_of_a_pushed_dataset(printed, words):
    status, output = printed[words]
    assert status == 0, output
    assert SHOWN[words] in output


@pytest.mark.parametrize(
    ("served", "words", "said"),
    [
        pytest.param("someone/other", ("stats", NAME), "the download from the Hub failed", id="no such dataset"),
        pytest.param(NAME, ("stats", f"{NAME}@v9"), "Check its name and revision", id="no such revision"),
        pytest.param(
            NAME,
            ("difficulty", f"{NAME}@v2", "--model", "m"),
            f"hf download {NAME} --repo-type dataset --revision v2 --local-dir problems, then curate difficulty",
            id="a command that writes",
        ),
    ],
)
def test_a_dataset_that_cannot_be_used_is_refused_with_what_to_do(files, tmp_path, served, words, said):
    with hub.serving(served, files, ("main", "v2")) as address:
        done = curate(address, tmp_path, *words)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_data_on_the_hub_that_curate_did_not_build_is_refused(files, tmp_path):
    foreign = {name: content for name, content in files.items() if name.startswith("data/")}
    with hub.serving(NAME, foreign) as address:
        done = curate(address, tmp_path, "stats", NAME)
    assert done.returncode == 1
    assert f"it has no manifest.json. Build a dataset from it: curate build-dataset --source NAME={NAME}" in done.stderr


def test_a_hub_that_cannot_be_reached_is_named(tmp_path):
    done = curate("http://127.0.0.1:9", tmp_path, "stats", NAME)
    assert done.returncode == 1
    assert "the network (http://127.0.0.1:9), log in if it is private" in done.stderr


def test_a_mistyped_path_is_not_looked_for_on_the_hub(tmp_path):
    (tmp_path / "data").mkdir()
    done = curate("http://127.0.0.1:9", tmp_path, "stats", "data/tacco")
    assert "Error: data/tacco is not a curate dataset" in done.stderr
