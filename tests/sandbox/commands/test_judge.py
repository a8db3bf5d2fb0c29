"""`curate judge` gives one verdict per record and, after an interruption, only judges records without a verdict."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sandbox.commands.judge import command
from sandbox.commands.partial_file import PartialFile, name_of_work

TESTS = [{"input": "1\n", "output": "1\n"}, {"input": "2\n", "output": "2\n"}]
RIGHT, WRONG = "print(input())", "print('no')"


@pytest.fixture
def records(tmp_path: Path) -> Path:
    path = tmp_path / "records.jsonl"
    codes = [RIGHT, WRONG, RIGHT]
    lines = [json.dumps({"id": n, "code": code, "kind": "stdin", "tests": TESTS}) for n, code in enumerate(codes)]
    path.write_text("\n".join(lines) + "\n\n")
    return path


def judge(records: Path, out: Path, *options: str) -> Result:
    return CliRunner().invoke(command, [str(records), "--out", str(out), "--workers", "1", *options])


def verdicts(out: Path) -> list[tuple[object, str]]:
    return [(line["id"], line["verdict"]) for line in map(json.loads, out.read_text().splitlines())]


def test_every_record_gets_a_verdict_in_order(records: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "out.jsonl"
    result = judge(records, out)
    assert result.exit_code == 0, result.output
    assert verdicts(out) == [(0, "accepted"), (1, "wrong_answer"), (2, "accepted")]
    assert result.output == f"3 records: accepted 2, wrong_answer 1\nverdicts in {out}\n"
    assert list(out.parent.iterdir()) == [out]


def test_an_interrupted_command_continues_with_what_is_left(records: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    partial = PartialFile(out, name_of_work(records))
    partial.path.write_text('{"id": "kept", "verdict": "accepted"}\n{"id": "torn", "ver')
    assert judge(records, out).exit_code == 0
    assert verdicts(out) == [("kept", "accepted"), (1, "wrong_answer"), (2, "accepted")]
    assert not partial.path.exists()


def test_other_records_and_other_options_are_other_work(records: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    some = PartialFile(out, name_of_work(records))
    some.path.write_text('{"id": "kept", "verdict": "accepted"}\n')
    assert judge(records, out, "--run-all").exit_code == 0
    assert [identity for identity, _ in verdicts(out)] == [0, 1, 2]
    assert [len(json.loads(line)["tests"]) for line in out.read_text().splitlines()] == [2, 2, 2]
    assert some.path.exists()
    records.write_text(records.read_text() + "\n")
    assert name_of_work(records) not in some.path.name


def test_a_malformed_record_is_no_verdict_and_the_command_says_so(records: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    records.write_text('{"id": 7}\n' + records.read_text())
    result = judge(records, out)
    assert result.exit_code == 1
    assert "error 1" in result.output
    first = json.loads(out.read_text().splitlines()[0])
    assert (first["line"], first["id"]) == (1, 7)
    assert first["error"].startswith("malformed record: ")


def test_where_no_sandbox_can_be_had_nothing_is_left_behind(records: Path, tmp_path: Path) -> None:
    result = judge(records, tmp_path / "out.jsonl", "--ray", "127.0.0.1:1")
    assert result.exit_code == 1
    assert result.output.startswith("Error: ")
    assert "what was judged" not in result.output.lower()
    assert list(tmp_path.iterdir()) == [records]
