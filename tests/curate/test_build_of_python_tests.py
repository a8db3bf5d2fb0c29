"""Problems whose tests are Python code are built, judged, exported and rewarded as others are."""

import json

import pytest
from datasets import load_dataset
from source_rows import humaneval_row, kodcode_row, leetcodedataset_row, mbpp_row, write_jsonl

from curate.exports._export import ExportOptions, export
from curate.pipeline import BuildOptions, build
from rewards.case_selection import select_cases
from rewards.verl import parse_ground_truth
from sandbox import Program, Sandbox, Suite
from sandbox.judge_record import judge_lines

WRONG = "def add(x, y):\n    return x - y\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("python_tests")
    rows = {
        "humaneval": [humaneval_row(0)],
        "kodcode": [kodcode_row("a"), kodcode_row("b", question="Subtract y from x, please.", solution=WRONG)],
        "leetcodedataset": [leetcodedataset_row("reverse-it")],
        "mbpp": [mbpp_row(2)],
    }
    places = {name: write_jsonl(folder / name / "rows.jsonl", some) for name, some in rows.items()}
    out = folder / "out"
    return out, build([(name, str(path)) for name, path in places.items()], out, BuildOptions(min_tests=2))


@pytest.fixture(scope="module")
def rows(built):
    cache = built[0].with_name("cache")
    return {row["id"]: row for row in load_dataset(str(built[0]), split="train", cache_dir=str(cache))}


def test_a_reference_that_passes_every_assertion_is_verified_and_a_wrong_one_is_not(built, rows):
    assert rows.keys() == {"humaneval/0", "kodcode/a", "leetcodedataset/reverse-it", "mbpp/2"}
    assert all(row["verified"] for row in rows.values())
    assert built[1].counts["kodcode"].rejected == {"verify": {"reference_fails": 1}}


def test_the_strength_of_the_tests_is_measured(rows):
    assert rows["mbpp/2"]["test_strength"] == 1.0
    assert rows["mbpp/2"]["strongest_tests"]
    assert len(select_cases(Suite.from_json(rows["mbpp/2"]["tests"]), "longest", budget=2).cases) == 2


def test_records_of_the_export_are_judged(built, tmp_path):
    export(built[0], "jsonl", tmp_path / "out", ExportOptions())
    lines = (tmp_path / "out" / "problems.jsonl").read_text().splitlines()
    wrong = [json.dumps({**json.loads(line), "code": WRONG}) for line in lines]
    with Sandbox(workers=2) as box:
        answers = list(judge_lines(box, enumerate([*lines, *wrong]), run_all=False))
    assert [answer["passed"] for answer in answers] == [True] * 4 + [False] * 4


def test_verl_gets_such_tests_only_for_the_scorer_that_knows_them(built, tmp_path):
    for name in ("trl", "verifiers"):
        assert export(built[0], name, tmp_path / name, ExportOptions())["counts"]["exported"] == 4
    export(built[0], "verl", tmp_path / "ours", ExportOptions(verl_data_source="curate"))
    files = str(tmp_path / "ours" / "train.parquet")
    for row in load_dataset("parquet", data_files=files, split="train", cache_dir=str(tmp_path / "cache")):
        suite = parse_ground_truth(row["reward_model"]["ground_truth"])
        assert suite.assertions is not None
        assert suite.checker == "python"
        with Sandbox(workers=1) as box:
            assert box.judge(Program(row["extra_info"]["reference"]), suite).accepted
    with pytest.raises(Exception, match="tests that are Python code; choose another"):
        export(built[0], "verl", tmp_path / "theirs", ExportOptions())
