"""Answers to EvalPlus's tasks are called in the sandbox and judged outside it, where no answer can reach."""

import json

import pytest
from evalplus_rows import humaneval_plus_row
from source_rows import write_jsonl

from rewards.reward import NO_CODE
from sandbox import Sandbox, SandboxError, Verdict
from train.evaluation.exercises import read_exercises
from train.evaluation.judges import call_run
from train.evaluation.judges.call_run import Reference, compute_expected_outputs, run_calls
from train.evaluation.judges.judge import JudgeResult, NoVerdictError

pytestmark = pytest.mark.usefixtures("own_cache")

RIGHT = "def up(ns):\n    return [n + 1 for n in ns]\n"
HOSTILE = r"""
import re
def up(ns):
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            begin, end = (int(place, 16) for place in line.split()[0].split("-"))
            if " rw" not in line or end > 1 << 47:
                continue
            try:
                memory.seek(begin)
                found = re.search(rb"secret-[0-9a-f]{32}", memory.read(end - begin))
            except OSError:
                continue
            if found:
                return found[0].decode()
"""
SECRET = "    import hashlib\n    return 'secret-' + hashlib.md5(repr(ns).encode()).hexdigest()\n"


def task(tmp_path, options="", **columns):
    path = write_jsonl(tmp_path / "HumanEvalPlus.jsonl", [humaneval_plus_row(**columns)])
    (exercise,) = read_exercises(f"{path}{options}", suite="humaneval+")
    return exercise


def ruling(exercise, program, box):
    return exercise.judge.judge(f"```python\n{program}\n```", box)


@pytest.mark.parametrize(
    ("program", "verdict", "part"),
    [
        pytest.param(RIGHT, Verdict.ACCEPTED, "plus", id="right"),
        pytest.param(
            RIGHT + "print(up([1]))\nimport sys\nsys.stderr.write('x')", Verdict.ACCEPTED, "plus", id="prints"
        ),
        pytest.param("from __future__ import annotations\n" + RIGHT, Verdict.ACCEPTED, "plus", id="future"),
        pytest.param("def up(ns):\n    return [2.0 for n in ns]", Verdict.WRONG_ANSWER, "plus", id="wrong on plus"),
        pytest.param("def up(ns):\n    return ns", Verdict.WRONG_ANSWER, "base", id="wrong"),
        pytest.param("def up(ns):\n    return (n + 1 for n in ns)", Verdict.WRONG_ANSWER, "base", id="a generator"),
        pytest.param("def other(ns):\n    return ns", Verdict.RUNTIME_ERROR, "base", id="another function"),
        pytest.param("def up(ns)\n    return ns", Verdict.COMPILE_ERROR, "base", id="no Python"),
        pytest.param("def up(ns):\n    while True: pass", Verdict.TIME_LIMIT, "base", id="hangs"),
        pytest.param("import os\nos._exit(0)", Verdict.RUNTIME_ERROR, "base", id="leaves"),
        pytest.param("import sys\nsys.exit(0)", Verdict.RUNTIME_ERROR, "base", id="leaves politely"),
        pytest.param(
            "def up(ns: List[int]):\n    return [n + one() for n in ns]", Verdict.RUNTIME_ERROR, "base", id="alone"
        ),
        pytest.param(
            "class Any(list):\n    def __eq__(self, other): return True\ndef up(ns):\n    return Any()",
            Verdict.WRONG_ANSWER,
            "base",
            id="returns what is equal to everything",
        ),
        pytest.param(
            "import json, os\njson.dumps = lambda *a, **k: '[2]'\n" + RIGHT,
            Verdict.WRONG_ANSWER,
            "base",
            id="patches what writes its values down",
        ),
        pytest.param(
            "def up(ns):\n    ns.append(1)\n    return up", Verdict.WRONG_ANSWER, "base", id="returns a function"
        ),
    ],
)
def test_answers_are_judged_by_what_their_function_returns(tmp_path, box, program, verdict, part):
    found = ruling(task(tmp_path), program, box)
    assert found.verdict == verdict.value
    assert found.parts[-1] == (part, verdict.value)


def test_an_answer_without_a_program_is_not_judged(tmp_path, box):
    assert task(tmp_path).judge.judge("I do not know.", box) == JudgeResult(NO_CODE)


def test_whose_imports_an_answer_can_use_is_a_choice(tmp_path, box):
    answer = "def up(ns: List[int]) -> List[int]:\n    return [n + one() for n in ns]"
    assert ruling(task(tmp_path), answer, box).verdict == Verdict.RUNTIME_ERROR.value
    with_prompt = task(tmp_path, "?imports=prompt")
    assert ruling(with_prompt, answer, box).verdict == Verdict.ACCEPTED.value
    assert with_prompt.fingerprint != task(tmp_path).fingerprint


def test_no_expected_value_is_in_the_memory_of_an_answer(tmp_path, box):
    secret = task(tmp_path, canonical_solution=SECRET)
    assert ruling(secret, f"{humaneval_plus_row()['prompt']}{SECRET}", box).verdict == Verdict.ACCEPTED.value
    assert ruling(secret, HOSTILE, box).verdict == Verdict.WRONG_ANSWER.value
    own = HOSTILE.replace("def up", f"kept = 'secret-' + '{'ab' * 16}'\ndef up")  # it finds what there is
    calls = run_calls([own], "up", ["[[1]]"], [0.0], box)
    assert calls.outputs[0].text == f'"secret-{"ab" * 16}"'


def test_claims_for_inputs_that_were_never_tried_are_only_claims(tmp_path, box):
    claims = "import os\nfor fd in range(3, 64):\n    try:\n        os.write(fd, b'v 0.0 [2]\\nv 0.0 []\\n' * 9)\n"
    claims += "    except OSError: pass\nos._exit(0)"
    found = ruling(task(tmp_path), claims, box)
    assert found.parts == (("base", "accepted"), ("plus", "wrong_answer"))  # as `return` with these values would be


def test_a_program_that_switches_its_timer_off_is_ended_with_its_run(box):
    program = "import signal\ndef up(ns):\n    signal.setitimer(signal.ITIMER_PROF, 0)\n    while True: pass"
    assert run_calls([program], "up", ["[[1]]"], [0.1], box, max_seconds=0.2).verdict is Verdict.TIME_LIMIT


def test_each_call_has_its_limit_in_cpu_time(box):
    program = "def up(n):\n    for i in range(n): pass"
    calls = run_calls([program], "up", ["[1000]", "[1000000000000]", "[1000]"], [0.2] * 3, box)
    assert (len(calls.outputs), calls.verdict) == (1, Verdict.TIME_LIMIT)


def test_large_values_leave_the_sandbox_as_digests(tmp_path, box):
    body = "    return [n * 1.0 for n in ns] * 100_000\n"
    large = task(tmp_path, canonical_solution=body, base_input=[[[1, 2]]], plus_input=[[[3, 0.5]]])
    assert (
        ruling(large, "def up(ns):\n    return [int(n) if n != 0.5 else n for n in ns] * 100_000", box).verdict
        == "accepted"
    )
    assert ruling(large, "def up(ns):\n    return [n for n in ns] * 99_999", box).verdict == "wrong_answer"
    _, reference = large.judge.parts[1]
    outputs = compute_expected_outputs(reference, box)
    assert all(output.is_digest and len(output.text) == 64 for output in outputs)


def test_what_the_reference_returns_is_computed_once(box, monkeypatch):
    class Lost(Sandbox):
        def run(self, *arguments, **named):
            raise SandboxError("gone")

    reference = Reference("def f(n):\n    return n * 2", "f", ("[1]", "[2]"))
    outputs = compute_expected_outputs(reference, box)
    assert [output.text for output in outputs] == ["2", "4"]
    monkeypatch.setattr(call_run, "_expected_outputs", call_run.SingleFlightCache(9))  # as in another process
    with Lost(workers=1) as lost:
        assert compute_expected_outputs(reference, lost) == outputs
        (kept,) = (call_run._get_cache_folder()).iterdir()
        kept.write_bytes(kept.read_bytes()[:-9])
        monkeypatch.setattr(call_run, "_expected_outputs", call_run.SingleFlightCache(9))
        with pytest.raises(SandboxError):
            compute_expected_outputs(reference, lost)


def test_a_cache_that_cannot_be_written_is_no_obstacle(box, tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    reference = Reference("def f(n):\n    return n * 3", "f", ("[1]",))
    assert [output.text for output in compute_expected_outputs(reference, box)] == ["3"]
    assert "expected outputs are not cached" in caplog.text


def test_nothing_is_known_about_an_answer_if_the_reference_fails(tmp_path, box):
    with pytest.raises(NoVerdictError, match="its reference fails on input 1: runtime_error"):
        ruling(task(tmp_path, canonical_solution="    return [ns[0]]\n"), RIGHT, box)


def test_more_memory_is_given_only_to_those_who_need_it(box, monkeypatch):
    monkeypatch.setattr(call_run, "MEMORY_MB", (64, 512))
    program = "def f(n):\n    return len(b'x' * (n << 20))"
    assert run_calls([program], "f", ["[200]"], [0.0], box).verdict is Verdict.ACCEPTED
    assert run_calls([program], "f", ["[800]"], [0.0], box).verdict is Verdict.MEMORY_LIMIT


def test_the_inputs_are_not_changed_by_a_call(tmp_path, box):
    program = "def up(ns):\n    ns[:] = [n + 1 for n in ns]\n    return ns"
    assert ruling(task(tmp_path), program, box).verdict == Verdict.ACCEPTED.value
    assert json.loads(task(tmp_path).judge.parts[0][1].inputs[0]) == [[1]]
