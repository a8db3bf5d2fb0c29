import subprocess
import sys
from pathlib import Path

import pytest
import sample
from curate_command import curate
from source_rows import taco_row, words, write_jsonl, write_parquet


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    raw = sample.write(tmp_path_factory.mktemp("raw"))
    return [word for name, location in raw for word in ("--source", f"{name}={location}")]


def test_the_funnel_is_printed_and_the_content_hash_is_the_last_line(sources, tmp_path):
    result = curate("build-dataset", *sources, "--out", tmp_path / "out", "--workers", 2, check=True)
    lines = result.stdout.splitlines()
    assert lines[0].split() == [
        "source",
        "read",
        "parse",
        "filter",
        "verify",
        "dedup",
        "decontam",
        "strength",
        "kept",
        "verified",
    ]
    assert lines[1].split() == ["taco", "11", "-1", "-6", "-1", "3", "3"]
    assert "  taco verify: reference_fails 1" in lines
    assert lines[-1].startswith("content hash ")
    assert "verify" in result.stderr


def test_a_dry_run_executes_and_writes_nothing(sources, tmp_path):
    result = curate("build-dataset", *sources, "--out", tmp_path / "out", "--dry-run", check=True)
    assert "taco filter: few_tests 1" in result.stdout
    assert not (tmp_path / "out").exists()


def test_one_example_of_each_reason_is_shown_on_a_line_that_is_safe_to_print(tmp_path):
    torn = [{"question": words(n), "solutions": f"[\x1b{n}", "input_output": "{}", "id": n} for n in range(2)]
    rows = [*torn, taco_row(words(2), tests=[("1", "1")], time_limit=None), taco_row(words(3))]
    raw = write_jsonl(tmp_path / "train.jsonl", rows)
    command = ["--source", f"taco={raw}", "--mutants", 0, "--out", tmp_path / "out"]
    surveyed = curate("build-dataset", *command, "--dry-run").stdout.splitlines()
    for _ in range(2):  # the second time, the folder is already finished
        built = curate("build-dataset", *command).stdout.splitlines()
        assert built[2:6] == surveyed[2:6]
    assert built[2] == "  taco parse: unparsable 2"
    assert built[3].startswith("    unparsable: taco/0: input_output has no inputs and outputs")
    assert built[4:6] == [
        "  taco filter: few_tests 1",
        "    few_tests: taco/2: 1 distinct tests of 1, 1 solutions in python, 0 pictures counted by the source",
    ]


def test_the_status_is_not_zero_when_nothing_survived(tmp_path):
    raw = write_parquet(tmp_path / "train.parquet", [taco_row(words(0), solutions=[])])
    for _ in range(2):  # the second time, the folder is already finished
        result = curate("build-dataset", "--source", f"taco={raw}", "--out", tmp_path / "out")
        assert result.exit_code == 1
        assert "no problem remains" in result.stderr
        assert result.stdout.splitlines()[-1].startswith("content hash ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["--source", "taco"], "NAME=LOCATION", id="no location"),
        pytest.param(["--source", "codeforces=."], "Choose one of", id="unknown source"),
        pytest.param(["--source", "taco=/nowhere"], "/nowhere: no such file or folder", id="missing path"),
        pytest.param([], "--source", id="no source"),
        pytest.param(
            ["--source", "taco=.", "--reference-language", "c++"], "choose one of cpp, python", id="unknown language"
        ),
    ],
)
def test_mistakes_are_explained_without_a_traceback(words, message, tmp_path):
    result = curate("build-dataset", *words, "--out", tmp_path / "out")
    assert result.exit_code not in (0, None)
    assert isinstance(result.exception, SystemExit)
    assert message in result.stderr


def test_a_folder_that_cannot_be_created_is_explained(sources):
    result = curate("build-dataset", *sources, "--out", "/proc/nowhere/out")
    assert isinstance(result.exception, SystemExit)
    assert "/proc/nowhere" in result.stderr


def test_a_missing_extra_is_named_with_the_command_that_installs_it(tmp_path):
    code = (
        "import sys\n"
        "sys.modules['datasketch'] = None\n"
        f"sys.argv[1:] = ['build-dataset', '--source', 'taco=.', '--out', {str(tmp_path / 'out')!r}]\n"
        "from cli import main\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[3], capture_output=True, text=True)
    assert done.returncode == 1
    assert "Type: pip install 'datasets>=" in done.stderr
    assert " 'datasketch<3,>=2' " in done.stderr
