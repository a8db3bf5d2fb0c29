"""Evaluations in the forms that LiveCodeBench's and EvalPlus's own code read."""

import json
import os
import re
import subprocess
import sys
from datetime import datetime

import pytest
import tiny_world
from canned_results import bits, evaluated
from curate_command import curate
from foreign import needed
from source_rows import livecodebench_row, write_jsonl

from train.evaluation.results.result import read_result

SUM = "print(sum(map(int, input().split())))"
TESTS = tiny_world.stdin_tests(lambda a, b: a + b)
DAYS = {"b": "2024-08-01T00:00:00", "a": "2024-09-01T00:00:00", "c": "2024-09-30T14:30:00", "d": "2024-10-02T00:00:00"}
TASK = {
    "task_id": "HumanEval/0",
    "prompt": 'def add(x, y):\n    """Return the sum."""\n',
    "entry_point": "add",
    "canonical_solution": "    return x + y\n",
    "base_input": [[1, 2]],
    "plus_input": [[-1, 0.5]],
    "atol": 0,
    "contract": "",
    "test": "",
}


def livecodebench(path, **changes):
    rows = [livecodebench_row(id, f"Task {id}.", TESTS, contest_date=day) for id, day in DAYS.items()]
    return write_jsonl(path / "test.jsonl", [row | changes.get(row["question_id"], {}) for row in rows])


def answer(id, number):
    """Solve a always, b with the first sample alone, and the others never."""
    right = id.endswith("/a") or (id.endswith("/b") and number == 0)
    return tiny_world.fenced(SUM) if right else "I do not know." if id.endswith("/c") else tiny_world.fenced("print(0)")


def export(result, form, out):
    return curate("export-evaluation", result, "--to", form, "--out", out)


def chosen(rows, printed):
    """Return the rows that LiveCodeBench takes with the dates in a command that was printed, in its order."""
    dates = re.search(r"--start_date (\S+) --end_date (\S+)", printed)
    first, last = (datetime.fromisoformat(day) for day in dates.groups()) if dates else (datetime.min, datetime.max)
    return sorted(id for id, day in rows.items() if first <= datetime.fromisoformat(day) <= last)


def test_the_custom_evaluator_gets_programs_for_all_problems_in_its_order(tmp_path, box):
    result = tmp_path / "r.json"
    evaluated(result, box, "lcb", livecodebench(tmp_path), answer, k=2)
    done = export(result, "lcb", tmp_path / "custom.json")
    assert done.exit_code == 0, done.output
    written = json.loads((tmp_path / "custom.json").read_text())
    assert [problem["question_id"] for problem in written] == chosen(DAYS, done.stdout) == ["a", "b", "c", "d"]
    assert [problem["code_list"] for problem in written] == [
        [f"{SUM}\n", f"{SUM}\n"],
        [f"{SUM}\n", "print(0)\n"],
        ["", ""],
        ["print(0)\n", "print(0)\n"],
    ]


@pytest.mark.parametrize("window", ["2024-08-01..2024-09-01", "2024-08-02..2024-09-30", "2024-09-01..2024-10-01"])
def test_the_dates_choose_what_was_evaluated(tmp_path, box, window):
    """LiveCodeBench's last day ends at midnight, so it has to be the next one for a contest in the afternoon."""
    result = tmp_path / "r.json"
    evaluated(result, box, "lcb", livecodebench(tmp_path), answer, k=1, window=window)
    done = export(result, "lcb", tmp_path / "custom.json")
    assert done.exit_code == 0, done.output
    written = json.loads((tmp_path / "custom.json").read_text())
    assert chosen(DAYS, done.stdout) == [problem["question_id"] for problem in written]
    assert len(written) == 2


def test_problems_that_livecodebench_would_miss_are_an_error(tmp_path, box):
    result = tmp_path / "r.json"
    evaluated(result, box, "lcb", livecodebench(tmp_path), answer, k=1, max_problems=3)
    done = export(result, "lcb", tmp_path / "custom.json")
    assert done.exit_code == 1
    assert "Evaluate without --problems" in done.output
    location = livecodebench(tmp_path, d={"contest_date": "2024-10-01T00:00:00"})
    evaluated(result, box, "lcb", location, answer, k=1, window="2024-08-01..2024-09-30")
    done = export(result, "lcb", tmp_path / "custom.json")
    assert "Evaluate with --window 2024-08-01..2024-10-01" in done.output
    assert not (tmp_path / "custom.json").exists()


def test_a_problem_that_cannot_be_read_here_has_empty_programs(tmp_path, box):
    broken = livecodebench(tmp_path, d={"metadata": '{"func_name": "f"}', "public_test_cases": "nothing"})
    result = tmp_path / "r.json"
    evaluated(result, box, "lcb", broken, answer, k=2)
    done = export(result, "lcb", tmp_path / "custom.json")
    assert "1 problems are unreadable; LiveCodeBench counts them as wrong" in done.stderr
    assert json.loads((tmp_path / "custom.json").read_text())[3] == {"question_id": "d", "code_list": ["", ""]}


def test_the_leaderboard_gets_our_verdicts(tmp_path, box):
    result = tmp_path / "r.json"
    evaluated(result, box, "lcb", livecodebench(tmp_path), answer, k=2)
    done = export(result, "lcb-leaderboard", tmp_path / "models")
    assert done.exit_code == 0, done.output
    assert "only files with all 880" in done.stderr
    written = json.loads((tmp_path / "models/canned/Scenario.codegeneration_2_0.6_eval_all.json").read_text())
    assert [problem["graded_list"] for problem in written] == [[True, True], [True, False], [False] * 2, [False] * 2]
    assert [problem["pass@1"] for problem in written] == [1, 0.5, 0, 0]
    assert written[1] == {
        "question_title": "A problem",
        "question_content": "Task b.",
        "platform": "leetcode",
        "question_id": "b",
        "contest_id": "1",
        "contest_date": "2024-08-01T00:00:00",
        "starter_code": "",
        "difficulty": "easy",
        "output_list": [answer("/b", 0), answer("/b", 1)],
        "code_list": [f"{SUM}\n", "print(0)\n"],
        "graded_list": [True, False],
        "pass@1": 0.5,
        "metadata": ["{}", '{"error_message": "wrong_answer"}'],
    }


def humaneval_plus(tmp_path):
    return write_jsonl(
        tmp_path / "HumanEvalPlus.jsonl",
        [TASK, TASK | {"task_id": "HumanEval/1", "prompt": "# again\n" + TASK["prompt"]}],
    )


def functions(id, number):
    right = id.endswith("/0") or number == 0
    return tiny_world.fenced(f"def add(x, y):\n    return x {'+' if right else '-'} y")


def test_evalplus_gets_a_program_for_each_sample(tmp_path, box):
    result, out = tmp_path / "r.json", tmp_path / "samples.jsonl"
    content = evaluated(result, box, "humaneval+", humaneval_plus(tmp_path), functions, k=2)
    assert bits(content) == {"HumanEval/0": "11", "HumanEval/1": "10"}
    done = export(result, "evalplus", out)
    assert done.exit_code == 0, done.output
    assert f"evalplus.evaluate --dataset humaneval --samples {out}" in done.stdout
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert lines[:2] == [{"task_id": "HumanEval/0", "solution": "def add(x, y):\n    return x + y\n"}] * 2
    assert [line["task_id"] for line in lines] == ["HumanEval/0", "HumanEval/0", "HumanEval/1", "HumanEval/1"]
    again = export(result, "evalplus", out)
    assert again.exit_code == 1
    assert "--overwrite" in again.output


@pytest.mark.thorough
def test_evalplus_itself_gives_our_verdicts(tmp_path, box):
    needed("evalplus")
    result, out, tasks = tmp_path / "r.json", tmp_path / "samples.jsonl", humaneval_plus(tmp_path)
    content = evaluated(result, box, "humaneval+", tasks, functions, k=2)
    assert export(result, "evalplus", out).exit_code == 0
    subprocess.run(
        [sys.executable, "-m", "evalplus.evaluate", "--dataset", "humaneval", "--samples", str(out)],
        env=os.environ | {"HUMANEVAL_OVERRIDE_PATH": str(tasks), "XDG_CACHE_HOME": str(tmp_path)},
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    judged = json.loads((tmp_path / "samples_eval_results.json").read_text())["eval"]
    theirs = {
        id: "".join("1" if sample["base_status"] == sample["plus_status"] == "pass" else "0" for sample in samples)
        for id, samples in judged.items()
    }
    assert theirs == bits(content)


def test_what_a_form_cannot_say_is_refused(tmp_path, box):
    result, out = tmp_path / "r.json", tmp_path / "out"
    evaluated(result, box, "humaneval+", humaneval_plus(tmp_path), functions, k=1, max_problems=1)
    assert "EvalPlus takes all tasks or none" in export(result, "evalplus", out).output
    done = export(result, "lcb", out)
    assert done.exit_code == 1
    assert "is the result on humaneval+, but lcb takes results on lcb" in done.output
    evaluated(result, box, "humaneval+", humaneval_plus(tmp_path), functions, k=1)
    samples = result.with_name("r.json.samples.jsonl")
    samples.write_text("".join(line + "\n" for line in samples.read_text().splitlines()[:1]))
    done = export(result, "evalplus", out)
    assert "have no completion, and evalplus needs one for each" in done.output
    assert len(read_result(result).outcomes) == 2
    assert not out.exists()
