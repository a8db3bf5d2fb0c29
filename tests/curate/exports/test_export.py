import json
import random
import sys
from pathlib import Path

import forked
import pyarrow.parquet as pq
import pytest
from curate_command import curate
from exported import JOINS, JUDGE, SUM, SUMS, problem, problems, write

from curate.exports._export import list_targets
from sandbox import Case, Suite
from sandbox.concurrency.file_lock import FileLock

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return write(tmp_path_factory.mktemp("dataset") / "built", problems())


def invoke(dataset, to, out, *words):
    return curate("export", dataset, "--to", to, "--out", out, *words)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_curate_judge_accepts_the_lines_of_jsonl(dataset, tmp_path):
    result = invoke(dataset, "jsonl", tmp_path / "out", "--select", "all")
    assert result.exit_code == 0, result.output
    records = lines(tmp_path / "out" / "problems.jsonl")
    assert [record["id"] for record in records] == [
        f"taco/{name}" for name in ("call", "dict", "none", "referee", "slow", "sum")
    ]
    assert "Statement of call." in records[0]["prompt"]
    assert [(t["input"], t["output"]) for t in records[0]["tests"]] == [(c.input, c.expected) for c in JOINS]
    assert (records[-1]["time_limit_s"], records[-1]["memory_limit_mb"]) == (3, 300)
    judged = tmp_path / "verdicts.jsonl"
    result = curate("judge", tmp_path / "out" / "problems.jsonl", "--out", judged, check=True)
    assert {verdict["id"] for verdict in lines(judged) if verdict["passed"]} == {record["id"] for record in records}


def test_rows_that_a_format_cannot_express_are_left_out_counted_and_listed(dataset, tmp_path):
    result = invoke(dataset, "verl", tmp_path / "out")
    assert result.exit_code == 0, result.output
    reasons = {row["id"].removeprefix("taco/"): row["reason"] for row in lines(tmp_path / "out" / "left_out.jsonl")}
    assert reasons == {
        "dict": "arguments",
        "none": "arguments",
        "other": "limits",
        "referee": "checker",
        "slow": "slow",
        "unseen": "unverified",
    }
    counts = json.loads((tmp_path / "out" / "manifest.json").read_text())["counts"]
    assert counts == {
        "rows": 8,
        "exported": 2,
        "left_out": {"arguments": 2, "checker": 1, "limits": 1, "slow": 1, "unverified": 1},
    }
    assert result.stdout.splitlines()[0] == f"2 of 8 problems in {tmp_path / 'out'}"
    assert "left out: checker 1 (a checker that verl's scorer lacks" in result.stdout


def test_problems_without_a_reference_are_exported_on_request(dataset, tmp_path):
    assert invoke(dataset, "jsonl", tmp_path / "out", "--include", "unverified").exit_code == 0
    assert lines(tmp_path / "out" / "problems.jsonl")[-1]["code"] is None
    assert [row["reason"] for row in lines(tmp_path / "out" / "left_out.jsonl")] == ["limits"]


def test_suspects_are_exported_on_request_or_where_their_checker_accepts_several_answers(tmp_path):
    rows = [
        problem("ordinary", Suite(SUMS), SUM, multi_answer_suspect=True),
        problem("referee", Suite(SUMS, checker="program", referee=JUDGE), SUM, multi_answer_suspect=True),
        problem("sum", Suite(SUMS), SUM),
    ]
    dataset = write(tmp_path / "built", rows)
    result = invoke(dataset, "jsonl", tmp_path / "out")
    assert "left out: suspects 1 (the tests may have several right answers" in result.stdout
    exported = [record["id"] for record in lines(tmp_path / "out" / "problems.jsonl")]
    assert exported == ["taco/referee", "taco/sum"]
    assert invoke(dataset, "jsonl", tmp_path / "all", "--include", "suspects").exit_code == 0
    assert len(lines(tmp_path / "all" / "problems.jsonl")) == 3
    assert json.loads((tmp_path / "all" / "manifest.json").read_text())["export"]["include"] == ["suspects"]


@pytest.mark.parametrize(
    ("words", "n_tests", "first"),
    [
        pytest.param((), 15, [7, 2], id="strongest first, fifteen"),
        pytest.param(("--budget", "3"), 3, [7, 2], id="a budget"),
        pytest.param(("--select", "longest", "--budget", "1"), 1, [10], id="longest"),
        pytest.param(("--select", "all"), 20, list(range(20)), id="all"),
    ],
)
def test_rewards_run_the_tests_that_were_chosen(dataset, tmp_path, words, n_tests, first):
    assert invoke(dataset, "jsonl", tmp_path / "out", *words).exit_code == 0
    (record,) = (r for r in lines(tmp_path / "out" / "problems.jsonl") if r["id"] == "taco/sum")
    assert len(record["tests"]) == n_tests
    assert [test["input"] for test in record["tests"]][: len(first)] == [SUMS[place].input for place in first]


def test_the_manifest_says_what_was_exported_and_how(dataset, tmp_path):
    invoke(dataset, "trl", tmp_path / "out", "--budget", "4")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["dataset"]["content_hash"] == json.loads((dataset / "manifest.json").read_text())["content_hash"]
    assert (manifest["export"]["to"], manifest["export"]["select"], manifest["export"]["budget"]) == (
        "trl",
        "strongest",
        4,
    )


@pytest.mark.parametrize("to", list_targets())
def test_the_same_export_twice_gives_the_same_bytes(dataset, tmp_path, to):
    def files():
        out = tmp_path / "out"
        assert invoke(dataset, to, out, "--overwrite").exit_code == 0
        return {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()}

    assert files() == files()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_export_is_replaced_only_on_request(dataset, tmp_path):
    invoke(dataset, "trl", tmp_path / "out")
    result = invoke(dataset, "jsonl", tmp_path / "out")
    assert result.exit_code == 1
    assert "add --overwrite" in result.stderr
    assert invoke(dataset, "jsonl", tmp_path / "out", "--overwrite").exit_code == 0
    assert not (tmp_path / "out" / "train.parquet").exists()


def test_foreign_files_in_the_folder_are_never_replaced(dataset, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    result = invoke(dataset, "jsonl", tmp_path, "--overwrite")
    assert result.exit_code == 1
    assert "is not an export" in result.stderr
    result = invoke(dataset, "jsonl", dataset / "jsonl")
    assert "is inside it" in result.stderr


def test_an_export_that_fails_leaves_the_earlier_one(dataset, tmp_path):
    invoke(dataset, "jsonl", tmp_path / "out")
    before = (tmp_path / "out" / "problems.jsonl").read_bytes()
    damaged = write(tmp_path / "damaged", problems())
    (file,) = (damaged / "data").iterdir()
    file.write_bytes(file.read_bytes()[:-100])
    result = invoke(damaged, "jsonl", tmp_path / "out", "--overwrite")
    assert result.exit_code == 1
    assert "damaged" in result.stderr
    assert (tmp_path / "out" / "problems.jsonl").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["damaged", "out"]


@pytest.mark.parametrize("to", list_targets())
def test_a_full_disk_is_reported_and_leaves_nothing(tmp_path, to):
    noise = random.Random(0)
    cases = [Case(noise.randbytes(30_000).hex(), "1") for _ in range(5)]
    dataset = write(tmp_path / "built", [problem("big", Suite(cases), SUM)])
    words = ["export", str(dataset), "--to", to, "--out", str(tmp_path / "out")]
    code = "import resource; from cli import main; resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000)); main()"
    # A file cannot grow beyond this, as on a full disk.
    result = forked.run([sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith("Error: [Errno 27]")
    assert "Traceback" not in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["built"]


def test_many_rows_are_written_in_groups(tmp_path):
    dataset = write(tmp_path / "built", (problem(f"{n:04}", Suite(SUMS[:5]), SUM) for n in range(1001)))
    assert invoke(dataset, "trl", tmp_path / "out").exit_code == 0
    with pq.ParquetFile(tmp_path / "out" / "train.parquet") as file:
        assert [file.metadata.row_group(group).num_rows for group in range(3)] == [500, 500, 1]
        assert file.read(columns=["id"])["id"].to_pylist() == [f"taco/{n:04}" for n in range(1001)]


def test_the_remains_of_a_killed_export_are_removed(dataset, tmp_path):
    (tmp_path / ".out.new" / "half").mkdir(parents=True)
    (tmp_path / ".out.new" / "train.parquet").write_text("PAR1")
    assert invoke(dataset, "jsonl", tmp_path / "out").exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert not (tmp_path / "out" / "train.parquet").exists()


def test_two_exports_do_not_write_to_one_folder(dataset, tmp_path):
    with FileLock(tmp_path / ".out.lock"):
        result = invoke(dataset, "jsonl", tmp_path / "out")
    assert result.exit_code == 1
    assert f"another command is writing to {tmp_path}/out. Wait for it" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == [".out.lock"]
    assert invoke(dataset, "jsonl", tmp_path / "out").exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_more_tests_than_the_scorer_of_verl_counts_are_refused(dataset, tmp_path):
    for words in (("--budget", "11"), ("--select", "all")):
        result = invoke(dataset, "verl", tmp_path / "out", *words)
        assert result.exit_code == 1
        assert "counts only the first 10 tests" in result.stderr
    assert invoke(dataset, "verl", tmp_path / "out", "--select", "all", "--verl-data-source", "mine").exit_code == 0


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        pytest.param(lambda folder: None, "is not a curate dataset", id="nothing"),
        pytest.param(lambda folder: (folder / ".work").mkdir(parents=True), "is not finished", id="unfinished"),
        pytest.param(lambda folder: write(folder, []), "no row can be exported to trl", id="no rows"),
        pytest.param(
            lambda folder: write(folder, [problem("p", Suite(SUMS), None)]), "unverified: no reference", id="none fits"
        ),
    ],
)
def test_a_folder_that_is_not_a_dataset_is_refused_with_the_reason(tmp_path, prepare, words):
    prepare(tmp_path / "dataset")
    result = invoke(tmp_path / "dataset", "trl", tmp_path / "out")
    assert result.exit_code == 1
    assert words in result.stderr
    assert not (tmp_path / "out").exists()


def test_an_unknown_format_is_refused_with_the_list_of_formats(dataset, tmp_path):
    result = invoke(dataset, "parchment", tmp_path / "out")
    assert result.exit_code == 2
    assert "not one of jsonl, trl, verifiers, verl" in result.stderr
