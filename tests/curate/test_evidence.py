"""What shows why a row fell out is kept: its statement, the test on which its solutions failed, and their answers."""

import json
import signal
import sys
from pathlib import Path

import datasets
import forked
import pytest
from curate_command import curate
from source_rows import SUM, SUM_TESTS, mbpp_row, read_parquet, taco_row, words, write_jsonl, write_parquet

from curate.dataset.evidence import EVIDENCE_COLUMNS
from curate.decontamination.clean_copy import write_clean_copy
from curate.operations.splitting import split
from curate.pipeline import BuildOptions, build
from curate.recipe import SplitConfig

ROOT = Path(__file__).parents[2]
OPTIONS = BuildOptions(mutants=0)
WRONG_LABEL = [*SUM_TESTS[:-1], (SUM_TESTS[-1][0], "-1\n")]
# Any two numbers with this sum are right, but the tests accept only one pair.
PAIRS = [(f"{total}\n", f"0 {total}\n") for total in range(8)]
MIN_FIRST = "n = int(input())\nprint(0, n)"
ANOTHER = "n = int(input())\nprint(0, n) if n < 5 else print(1, n - 1)"
CALLS = [([n], 2 * n) for n in range(6)]
FLAKY = "import os\nprint(int(input()) + (os.environ['PYTHONHASHSEED'] != '0'))"
SUCCESSORS = [(f"{n}\n", f"{n}\n") for n in range(6)]


def write(folder):
    rows = [
        taco_row(words(0)),
        taco_row(words(1), WRONG_LABEL, [SUM, SUM + "  # again", SUM + "  # once more", SUM + "  # a fourth time"]),
        taco_row(words(2), PAIRS, [MIN_FIRST, ANOTHER]),
        taco_row(words(3), solutions=["import sys\nprint(1 // 0)"]),
        taco_row(words(4), CALLS, ["def double(n):\n    return [n, n]"], fn_name="double"),
        taco_row(words(5, 2_000), SUM_TESTS[:3]),
        taco_row(words(0)),
        taco_row(words(7), solutions=["print('x' * 100_000)  # " + "y" * 9_000]),
        taco_row(words(8), SUCCESSORS, [FLAKY]),
        taco_row(words(9), input_output="{"),
    ]
    return [("taco", str(write_parquet(folder / "train.parquet", rows)))]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write(tmp_path_factory.mktemp("raw"))


@pytest.fixture(scope="module")
def built(source, tmp_path_factory):
    out = tmp_path_factory.mktemp("built") / "out"
    return out, build(source, out, OPTIONS)


@pytest.fixture(scope="module")
def evidence(built):
    rows = read_parquet(built[0] / "evidence")
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row for row in rows}


def inspect(*words):
    return curate("inspect", *words, check=True).stdout


def test_a_wrong_label_is_shown_beside_the_answers_on_which_solutions_agree(evidence):
    row = evidence["taco/1"]
    assert (row["stage"], row["reason"], row["cause"]) == ("verify", "reference_fails", "wrong_tests")
    assert (row["test"], row["kind"], row["checker"]) == (6, "stdin", "lcb")
    assert (row["input"], row["expected"]) == WRONG_LABEL[-1]
    assert row["outputs"] == ["11\n"] * 3
    assert row["programs"][0] == SUM
    assert row["verdicts"] == ["wrong_answer"] * 3
    assert row["statement"] == words(1)


def test_a_row_with_several_right_answers_stays_and_shows_them_beside_the_references(evidence, built):
    out, _ = built
    (kept,) = (row for row in read_parquet(out / "data") if row["id"] == "taco/2")
    assert kept["multi_answer_suspect"]
    row = evidence["taco/2"]
    assert (row["stage"], row["reason"]) == ("verify", "multi_answer_suspect")
    assert row["detail"] == "1 of 1 further solutions give unexpected answers to some tests"
    assert (row["test"], row["input"], row["expected"]) == (6, "5\n", "0 5\n")
    assert row["programs"] == [MIN_FIRST, ANOTHER]
    assert row["outputs"] == ["0 5\n", "1 4\n"]
    assert row["verdicts"] == ["accepted", "wrong_answer"]


def test_a_crash_has_its_message_and_no_output(evidence):
    row = evidence["taco/3"]
    assert (row["verdicts"], row["outputs"]) == (["runtime_error"], [None])
    assert row["messages"][0].endswith("ZeroDivisionError: integer division or modulo by zero")


def test_a_call_shows_arguments_and_the_returned_value(evidence):
    row = evidence["taco/4"]
    assert (row["kind"], row["entry_point"]) == ("call", "double")
    assert json.loads(row["input"]) == [0]
    assert json.loads(row["expected"]) == 0
    assert [json.loads(output) for output in row["outputs"]] == [[0, 0]]


def test_a_reference_that_fails_with_another_seed_is_run_with_that_seed(evidence):
    row = evidence["taco/8"]
    assert row["reason"] == "flaky_reference"
    assert (row["expected"], row["outputs"]) == ("0\n", ["1\n"])


def test_rows_that_fell_out_elsewhere_keep_their_statement(evidence):
    assert (evidence["taco/6"]["stage"], evidence["taco/6"]["statement"]) == ("dedup", words(0))
    few = evidence["taco/5"]
    assert (few["stage"], few["reason"], few["test"], few["programs"]) == ("filter", "few_tests", None, [])
    assert few["statement"].startswith(words(5, 2_000)[:4_000])
    assert "taco/9" not in evidence  # nothing of it could be read


def test_long_texts_are_cut_so_that_readers_see_it(evidence):
    row = evidence["taco/7"]
    assert row["outputs"] == [f"{'x' * 4096}\n[... cut: 100,001 characters in all]"]
    assert row["programs"][0].endswith("\n[... cut: 9,024 characters in all]")
    assert evidence["taco/5"]["statement"].endswith(f"cut: {len(words(5, 2_000)):,} characters in all]")
    assert all(len(text) < 4200 for row in evidence.values() for text in [row["statement"], *row["programs"]])


def test_rows_that_are_above_suspicion_have_no_evidence(evidence):
    assert "taco/0" not in evidence


def test_datasets_opens_the_table_by_its_name(built, tmp_path):
    opened = datasets.load_dataset(str(built[0]), "evidence", split="train", cache_dir=str(tmp_path))
    assert opened.column_names == list(EVIDENCE_COLUMNS)
    assert opened.to_list() == read_parquet(built[0] / "evidence")


def test_outputs_that_differ_from_run_to_run_do_not_change_the_content_hash(tmp_path):
    clock = "import time\nprint(time.time_ns())"
    raw = write_parquet(tmp_path / "raw" / "train.parquet", [taco_row(words(0), solutions=[clock])])
    folders = tmp_path / "one", tmp_path / "two"
    one, two = (build([("taco", str(raw))], folder, OPTIONS) for folder in folders)
    assert one.content_hash == two.content_hash
    outputs = [row["outputs"] for folder in folders for row in read_parquet(folder / "evidence")]
    assert outputs[0] != outputs[1]


@pytest.mark.thorough
def test_a_build_that_was_killed_while_it_gathered_evidence_continues_with_what_it_has(source, built, tmp_path):
    """The first process kills itself after two results; the second one prints what was left to gather."""
    gathering = """
import os, sys
from pathlib import Path
import curate.stages.evidence as stage
from curate import BuildOptions, build
original, gathered = stage.EvidenceStage.apply_record, set()
def noted(self, row, record):
    if row.problem.id not in gathered and len(gathered) == int(sys.argv[3]): os.kill(os.getpid(), 9)
    gathered.add(row.problem.id)
    return original(self, row, record)
stage.EvidenceStage.apply_record = noted
kept = stage.EvidenceStage.examine
def examined(self, row, sandbox):
    sys.stdout.write(f"{row.problem.id}\\n")  # threads examine rows: print would write the end of a line by itself
    return kept(self, row, sandbox)
stage.EvidenceStage.examine = examined
build([("taco", sys.argv[1])], Path(sys.argv[2]), BuildOptions(mutants=0))
"""

    def run(most):
        command = [sys.executable, "-c", gathering, source[0][1], str(tmp_path / "out"), str(most)]
        return forked.run(command, cwd=ROOT, capture_output=True, text=True)

    assert run(2).returncode == -signal.SIGKILL
    assert not (tmp_path / "out" / "manifest.json").exists()
    continued = run(99)
    assert continued.returncode == 0, continued.stderr
    assert len(continued.stdout.split()) == 4  # of six; a result is noted after it was journaled
    assert read_parquet(tmp_path / "out" / "evidence") == read_parquet(built[0] / "evidence")


def test_a_copy_without_some_rows_has_the_evidence_and_the_statements_of_those_rows(built, tmp_path):
    against = write_jsonl(tmp_path / "eval.jsonl", [{"task_id": "E/0", "prompt": words(0)}])
    write_clean_copy(str(built[0]), [f"mine={against}"], tmp_path / "out")
    before, after = read_parquet(built[0] / "evidence"), read_parquet(tmp_path / "out" / "evidence")
    assert [row for row in after if row["stage"] != "decontaminate"] == before
    (removed,) = (row for row in after if row["stage"] == "decontaminate")
    assert (removed["id"], removed["statement"], removed["test"]) == ("taco/0", words(0), None)
    assert [row["id"] for row in after] == sorted(row["id"] for row in after)
    opened = datasets.load_dataset(str(tmp_path / "out"), "evidence", split="train", cache_dir=str(tmp_path / "cache"))
    assert len(opened) == len(after)


def test_assertions_show_the_value_of_a_call_and_the_message_of_statements(tmp_path):
    wrong = "def add(x, y):\n  return x + y + 1"
    statement = "assert len(str(add(1, 2))) == 2, 'too short'"
    rows = [
        mbpp_row(1, code=wrong, test_list=["assert add(1, 2) == 3"], challenge_test_list=[]),
        mbpp_row(2, test_list=[statement], challenge_test_list=[]),
    ]
    raw = write_jsonl(tmp_path / "mbpp.jsonl", rows)
    build([("mbpp", str(raw))], tmp_path / "out", BuildOptions(mutants=0, min_tests=1))
    call, statements = read_parquet(tmp_path / "out" / "evidence")
    assert (call["kind"], call["input"], call["expected"], call["outputs"]) == ("assertion", "add(1, 2)", "3", ["4"])
    assert (statements["expected"], statements["outputs"]) == ("", [None])
    assert "too short" in statements["messages"][0]
    shown = inspect(tmp_path / "out", "mbpp/2")
    assert f"Test 1: Python, checker python\n\n  {statement}\n" in shown
    assert "too short" in shown.partition("Solution 1, python: ")[2]


def test_inspect_shows_expected_and_actual_outputs_side_by_side(built):
    out = inspect(built[0], "taco/1")
    assert "cause   wrong_tests" in out
    assert f"Statement\n\n  {words(1)}\n" in out
    assert "Test 6: standard input and output, checker lcb\n\n  5 6\n" in out
    assert [line.split() for line in out.splitlines() if line.startswith("  ! ")] == [["!", "-1", "11", "11", "11"]]
    assert f"Solution 1, python: wrong_answer\n\n    {SUM}\n" in out


def test_inspect_shows_why_a_row_that_stays_may_have_several_right_answers(built):
    out = inspect(built[0], "taco/2")
    part = out.partition("\nTest with possibly several correct outputs\n")[2].partition("\nTest strength\n")[0]
    lines = [line.split() for line in part.splitlines()]
    assert ["expected", "reference", "solution", "1"] in lines
    assert ["!", "0", "5", "0", "5", "1", "4"] in lines
    assert "Reference, python: accepted" in part


def test_inspect_shows_the_message_of_a_program_without_an_answer(built):
    out = inspect(built[0], "taco/3")
    assert "\nExpected output\n" in out
    assert "  | ZeroDivisionError: integer division or modulo by zero" in out


def test_inspect_shows_the_statement_of_a_row_that_a_filter_rejected(built):
    out = inspect(built[0], "taco/5")
    assert "reason  few_tests" in out
    assert words(5, 2_000)[:1_000] in out
    assert "characters in all]" in out


def test_the_report_has_the_shortest_examples_for_each_cause(built):
    report = json.loads((built[0] / "report.json").read_text())
    entries = {(entry["reason"], entry["cause"]): entry for entry in report["evidence"]}
    assert set(entries) == {
        ("few_tests", ""),
        ("flaky_reference", ""),
        ("multi_answer_suspect", ""),
        ("reference_fails", "runtime_error"),
        ("reference_fails", "wrong_answer"),
        ("reference_fails", "wrong_tests"),
    }
    wrong = entries["reference_fails", "wrong_answer"]
    assert (wrong["n"], [example["id"] for example in wrong["examples"]]) == (2, ["taco/4", "taco/7"])
    (suspect,) = entries["multi_answer_suspect", ""]["examples"]
    assert [program["output"] for program in suspect["programs"]] == ["0 5\n", "1 4\n"]
    (crash,) = entries["reference_fails", "runtime_error"]["examples"]
    assert "ZeroDivisionError" in crash["programs"][0]["message"]


def test_the_card_lists_the_table_and_explains_its_columns(built):
    card = (built[0] / "README.md").read_text()
    assert "- config_name: evidence\n  data_files: evidence/train-*.parquet" in card
    assert all(f"| {name} |" in card.partition("Config `evidence`")[2] for name in EVIDENCE_COLUMNS)


def test_the_parts_of_a_split_have_no_evidence_about_each_others_rows(built, tmp_path):
    split(built[0], tmp_path, SplitConfig(validation=1))
    for part in ("train", "validation"):
        suspects = {row["id"] for row in read_parquet(tmp_path / part / "data") if row["multi_answer_suspect"]}
        evidence = read_parquet(tmp_path / part / "evidence")
        assert {row["id"] for row in evidence if row["reason"] == "multi_answer_suspect"} == suspects
        assert {row["id"] for row in evidence} >= {"taco/1", "taco/3"}
        assert not any(row["stage"] == "split" for row in evidence)
