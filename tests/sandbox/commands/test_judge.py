"""`curate judge` gives one verdict per record and, after an interruption, only judges records without a verdict."""

import contextlib
import hashlib
import json
import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path

import forked
import pytest
from click.testing import CliRunner, Result

from sandbox.commands.judge import command
from sandbox.concurrency.file_lock import FileLock

TESTS = [{"input": "1\n", "output": "1\n"}, {"input": "2\n", "output": "2\n"}]
ROOT = Path(__file__).parents[3]
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


def partial_of(records: Path, out: Path, *words: str) -> Path:
    """Return the path of the file that an interrupted command leaves behind."""
    fingerprint = hashlib.sha256(records.read_bytes()).hexdigest()[:12]
    return out.with_name(".".join([out.name, fingerprint, *words, "partial"]))


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
    partial = partial_of(records, out)
    partial.write_text('{"id": "kept", "verdict": "accepted"}\n{"id": "torn", "ver')
    assert judge(records, out).exit_code == 0
    assert verdicts(out) == [("kept", "accepted"), (1, "wrong_answer"), (2, "accepted")]
    assert not partial.exists()


def test_a_second_command_judges_nothing_meanwhile(records: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    with FileLock(partial_of(records, out)):
        refused = judge(records, out)
    assert refused.exit_code == 1
    assert f"another command is writing to {partial_of(records, out)}. Wait for it" in refused.output
    assert judge(records, out).exit_code == 0


def test_a_damaged_line_is_refused_and_the_verdicts_before_it_are_kept(records: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    partial = partial_of(records, out)
    partial.write_text(text := '{"id": "kept", "verdict": "accepted"}\n\0\0\n{"id": 2, "verdict": "accepted"}\n')
    refused = judge(records, out)
    assert refused.exit_code == 1
    assert f"{partial} is corrupt at line 2" in refused.output
    assert partial.read_text() == text
    subprocess.run(shlex.split(refused.output.rpartition(": ")[2]), check=True)
    assert judge(records, out).exit_code == 0
    assert verdicts(out) == [("kept", "accepted"), (1, "wrong_answer"), (2, "accepted")]


def test_other_records_and_other_options_are_other_work(records: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    some = partial_of(records, out)
    some.write_text('{"id": "kept", "verdict": "accepted"}\n')
    assert judge(records, out, "--run-all").exit_code == 0
    assert [identity for identity, _ in verdicts(out)] == [0, 1, 2]
    assert [len(json.loads(line)["tests"]) for line in out.read_text().splitlines()] == [2, 2, 2]
    assert some.exists()
    records.write_text(records.read_text() + "\n")
    assert partial_of(records, out) != some


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
    result = judge(records, tmp_path / "out.jsonl", "--backend", "ray", "--address", "127.0.0.1:1")
    assert result.exit_code == 1
    assert result.output.startswith("Error: ")
    assert "verdicts so far" not in result.output.lower()
    assert list(tmp_path.iterdir()) == [records]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param({"time_limit": 2}, "unknown field 'time_limit'. Did you mean 'time_limit_s'?", id="mistyped"),
        pytest.param({"solution": "1"}, "unknown field 'solution'. The fields are id, code,", id="another word"),
        pytest.param({"zzz": 1}, "unknown field 'zzz'. The fields are id, code,", id="nothing like it"),
        pytest.param(
            {"tests": [{"input": "", "expected": "1"}]},
            "unknown field 'tests[0].expected'. The fields are input, output, trial.",
            id="in a test",
        ),
        pytest.param(
            {"referee": {"source": "1"}},
            "unknown field 'referee.source'. The fields are code, language, convention.",
            id="judge",
        ),
    ],
)
def test_an_unknown_field_is_named_before_anything_is_judged(
    change: dict[str, object], words: str, records: Path, tmp_path: Path
) -> None:
    bad = {"id": 9, "code": RIGHT, "kind": "stdin", "tests": TESTS, **change}
    records.write_text(records.read_text() + json.dumps(bad) + "\n")
    result = judge(records, tmp_path / "out.jsonl")
    assert result.exit_code == 1
    assert f"Error: {records}:5: {words}" in result.output
    assert "Nothing has been judged." in result.output
    assert list(tmp_path.iterdir()) == [records]


def test_fields_of_ones_own_go_under_metadata(records: Path, tmp_path: Path) -> None:
    own = {"id": 9, "code": RIGHT, "kind": "stdin", "tests": TESTS, "metadata": {"mine": 1}, "starter_code": ""}
    records.write_text(json.dumps(own))
    assert judge(records, tmp_path / "out.jsonl").exit_code == 0


def test_an_existing_file_is_replaced_only_if_asked_for(records: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("mine")
    refused = judge(records, out)
    assert (refused.exit_code, out.read_text()) == (1, "mine")
    assert refused.output == f"Error: {out} exists. Pass --overwrite to replace it, or choose another --out.\n"
    assert judge(records, out, "--overwrite").exit_code == 0
    assert len(verdicts(out)) == 3


@pytest.mark.parametrize(("answer", "replaced"), [("y", True), ("n", False)])
def test_on_a_terminal_the_command_asks(answer: str, replaced: bool, records: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("mine")
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode())
    command = [sys.executable, "-m", "cli", "judge", str(records), "--out", str(out), "--workers", "1"]
    status = forked.run(command, cwd=ROOT, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs).returncode
    os.close(theirs)
    assert (status, out.read_text() == "mine") == (0 if replaced else 1, not replaced)
    assert "exists. Replace it? [y/N]" in read_all(ours)


def read_all(descriptor: int) -> str:
    """Return everything that a terminal shows."""
    shown = b""
    with contextlib.suppress(OSError):  # Linux raises one when the other end is closed
        while part := os.read(descriptor, 4096):
            shown += part
    os.close(descriptor)
    return shown.decode()


@pytest.mark.parametrize("place", ["/proc/out.jsonl", "/sys/new/out.jsonl", "{records}/out.jsonl"])
def test_a_place_that_cannot_be_written_is_refused_before_the_work(place: str, records: Path, tmp_path: Path) -> None:
    result = judge(records, Path(place.format(records=records)))
    assert result.exit_code == 1
    assert result.output.startswith("Error: ")
    assert result.output.endswith("Choose another --out. Nothing has been judged.\n")
    assert "Traceback" not in result.output


def test_a_full_disk_is_noticed_before_the_work_and_the_work_continues_when_there_is_room(
    records: Path, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    lines = [json.dumps({"id": n, "code": RIGHT, "kind": "stdin", "tests": TESTS}) for n in range(40)]
    records.write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "cli", "judge", str(records), "--out", str(disk / "out"), "--workers", "1"]
    judging = shlex.join(command)
    script = f"""
        mount -t tmpfs -o size=16k none {disk} || exit 77
        head -c 12288 /dev/zero > {disk}/filler
        {judging} && exit 1
        ls {disk}; rm {disk}/filler
        {judging} && exit 2
        mount -o remount,size=1m {disk}; {judging} || exit 3
        wc -l < {disk}/out
    """
    own = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
    done = subprocess.run([*own, "sh", "-c", script], cwd=ROOT, capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip("a small disk cannot be mounted: that needs root, or user namespaces")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    before, during = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert before.startswith(f"Error: not enough disk space in {disk}: 40 verdicts need at least ")
    assert before.endswith("Nothing has been judged.")
    assert "No space left on device" in during
    assert during.endswith("the same command continues.")
    assert (done.stdout.split()[0], done.stdout.split()[-1]) == ("filler", "40")
