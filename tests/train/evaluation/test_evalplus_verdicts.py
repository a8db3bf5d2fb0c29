"""Published answers to HumanEval+ and MBPP+ get the verdicts that EvalPlus published, and references pass."""

import gzip
import json
import random

import pytest
from source_rows import DATA

from sandbox import Limits, Program
from train.evaluation.exercises import read_exercises

EVALUATION = DATA / "evaluation"
N_ANSWERS = 40
SLOW = {"HumanEval/130", "Mbpp/255", "Mbpp/599"}  # each takes some ten seconds

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(not EVALUATION.is_dir(), reason="the real data are not beside this checkout"),
]


@pytest.fixture(scope="module")
def published():
    with gzip.open(EVALUATION / "evalplus_verdicts.jsonl.gz", "rt") as file:
        rows = [row for row in map(json.loads, file) if row["task_id"] not in SLOW]
    return random.Random(14).sample(rows, N_ANSWERS)


def test_published_answers_get_the_published_verdicts(box, published, tmp_path, monkeypatch):
    """All 1,626 but one, when this was written: an answer to Mbpp/566 that takes no time and returns what is right."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    files = {"humaneval+": "HumanEvalPlus.jsonl.gz", "mbpp+": "MbppPlus.jsonl.gz"}
    judges = {
        one.id: one.judge
        for suite, name in files.items()
        for one in read_exercises(str(EVALUATION / name), suite=suite)
    }
    ours, references = [], []
    for row in published:
        judge = judges[row["task_id"]]
        verdicts = {name: judge.judge_part(part, row["solution"], box).value for name, part in judge.parts}
        verdicts.setdefault("plus", verdicts["base"])
        ours.append({name: "pass" if verdict == "accepted" else "fail" for name, verdict in verdicts.items()})
        references.append(judge.judge_program(judge.parts[0][1].program, box).verdict)
    assert ours == [{"base": row["base"], "plus": row["plus"]} for row in published]
    assert set(references) == {"accepted"}


def test_answers_to_humaneval_get_the_verdicts_of_openais_harness(box, published):
    """In that harness, the prompt, the answer and the tests are one program."""
    path = DATA / "eval" / "HumanEval.jsonl.gz"
    with gzip.open(path, "rt") as file:
        rows = {row["task_id"]: row for row in map(json.loads, file)}
    suites = {one.id: one.judge.suite for one in read_exercises(str(path))}
    answers = [row for row in published if row["task_id"] in rows]
    ours, theirs = [], []
    for answer in answers:
        row = rows[answer["task_id"]]
        program = f"{row['prompt']}\n{answer['solution']}\n{row['test']}\ncheck({row['entry_point']})\nprint('passed')"
        ran = box.run(Program(program), limits=Limits(wall_seconds=3.0, memory_mb=1024))
        theirs.append(ran.text.endswith("passed\n"))
        ours.append(box.judge(Program(answer["solution"]), suites[answer["task_id"]]).accepted)
    assert len(answers) > 5
    assert ours == theirs
