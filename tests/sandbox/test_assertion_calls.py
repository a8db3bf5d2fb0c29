"""In assertion suites, a call with literal arguments runs beside the submission, and its value is compared outside."""

import json

import pytest

from sandbox import Assertions, Case, Limits, Program, RefereeError, Sandbox, Suite, Verdict
from sandbox.json_codec import decode
from sandbox.judge import CaseRun, judge
from sandbox.judge_record import Record, judge_lines
from sandbox.program import Outcome, RunResult

LIMITS = Limits(wall_seconds=5, memory_mb=256)


def suite_of(*cases: tuple[str, str], names: tuple[str, ...] = ("f",), given: str = "") -> Suite:
    return Suite([Case(*case) for case in cases], None, "python", LIMITS, assertions=Assertions(names, given))


def verdict(box: Sandbox, source: str, call: str, expected: str, given: str = "") -> Verdict:
    names = ("f", "Solution")
    return box.judge(Program(source), suite_of((call, expected), names=names, given=given)).verdict


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("f((1, 2))", "(1, 2)"),
        ("f({1, 2})", "{2, 1}"),
        ("f(frozenset([1]))", "{1}"),
        ("f(set())", "set()"),
        ("f(x={1: [2]})", "{True: [2.0]}"),
        ("f(b'\\0')", "b'\\0'"),
        ("f(1 - 2j)", "1 - 2j"),
        ("f(float('inf'))", "float('inf')"),
        ("f('\\ud800é')", "'\\ud800é'"),
        ("f(10 ** 1)" if False else "f(1000000000000000000000)", "10e20"),
    ],
)
def test_values_of_all_kinds_go_in_and_come_out(box: Sandbox, call: str, expected: str) -> None:
    assert verdict(box, "def f(x): return x", call, expected) is Verdict.ACCEPTED


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("def f(x): return [x]", Verdict.WRONG_ANSWER, id="a list is not a tuple"),
        pytest.param("def f(x): return (x, 0)", Verdict.WRONG_ANSWER, id="another value"),
        pytest.param("def f(x): return object()", Verdict.WRONG_ANSWER, id="an object"),
        pytest.param("def f(x): return x / 0", Verdict.RUNTIME_ERROR, id="an exception"),
        pytest.param("def g(x): return (x,)", Verdict.RUNTIME_ERROR, id="another name"),
        pytest.param("def f(x): return (x,", Verdict.COMPILE_ERROR, id="bad syntax"),
        pytest.param("def f(x): raise SystemExit(0)", Verdict.RUNTIME_ERROR, id="an exit"),
        pytest.param("import os\ndef f(x): os._exit(0)", Verdict.RUNTIME_ERROR, id="a hard exit"),
        pytest.param("def f(x):\n    print('hi')\n    return (x,)", Verdict.ACCEPTED, id="prints"),
        pytest.param("from __future__ import annotations\ndef f(x: X): return (x,)", Verdict.ACCEPTED, id="a future"),
        pytest.param("def f(x): return (x,)\nif __name__ == '__main__': input()", Verdict.ACCEPTED, id="a script"),
        pytest.param("def f(x): return {(x,): 1}.keys()", Verdict.WRONG_ANSWER, id="a view of keys is not a tuple"),
        pytest.param("from collections import namedtuple\nP = namedtuple('P', 'a')\ndef f(x): return P(x)",
                     Verdict.ACCEPTED, id="a namedtuple"),
        pytest.param("def f(x): return gcd(x, x),", Verdict.RUNTIME_ERROR, id="only imports that were promised"),
        pytest.param("class E:\n    def __eq__(self, o): return True\n    __class__ = tuple\ndef f(x): return E()",
                     Verdict.WRONG_ANSWER, id="an object equal to all"),
    ],
)  # fmt: skip
def test_a_call_is_judged_by_its_value(box: Sandbox, source: str, expected: Verdict) -> None:
    assert verdict(box, source, "f(3)", "(3,)") is expected


def test_given_code_comes_before_the_submission_and_has_futures_of_its_own(box: Sandbox) -> None:
    given = "from __future__ import annotations\nimport math\nclass Node:\n    def __init__(self, v): self.v = v"
    source = "class Solution:\n    def f(self, n): return math.floor(Node(n).v)"
    assert verdict(box, source, "Solution().f(2.5)", "2", given) is Verdict.ACCEPTED


@pytest.mark.parametrize("given", ["1 / 0", "def", "raise SystemExit(0)", "while True: pass"])
def test_given_code_that_fails_by_itself_is_not_held_against_the_submission(box: Sandbox, given: str) -> None:
    suite = Suite([Case("f(1)", "1")], None, "python", Limits(wall_seconds=0.5), None, Assertions(("f",), given))
    with pytest.raises(RefereeError, match="the suite's own tests failed: Assertions.given"):
        box.judge(Program("def f(x): return x"), suite)


def test_a_submission_that_breaks_what_is_given_fails_by_itself(box: Sandbox) -> None:
    assert verdict(box, "def f(x): return helper(x)", "f(1)", "1", "def helper(x): return x") is Verdict.ACCEPTED
    assert verdict(box, "del helper\ndef f(x): return helper(x)", "f(1)", "1", "helper = abs") is Verdict.RUNTIME_ERROR


def test_a_program_in_another_language_is_refused_in_words(box: Sandbox) -> None:
    with pytest.raises(ValueError, match="tests in Python cannot call cpp programs; submit a Python program"):
        box.judge(Program("int main() {}", "cpp"), suite_of(("f(1)", "1")))


@pytest.mark.parametrize(
    ("suite", "words"),
    [
        (suite_of(("g(1)", "1")), "case 0: input must be a call of one of f, not of 'g'"),
        (suite_of(("f(1)", "1"), ("f(1)", "x")), "case 1: expected must be a Python literal, not 'x'"),
        (suite_of(("assert f(", "")), "case 0: input must be Python statements"),
        (suite_of(("# nothing", "")), "there are none"),
        (suite_of(("f(1)", "1"), names=()), "Assertions.names is empty"),
        (suite_of(("f(1)", "1"), names=("a b",)), "must be Python names, not 'a b'"),
        (Suite([Case("1", "1")], checker="python"), "only for suites with assertions"),
        (Suite([Case("[1]", "1")], "f", "python"), "only for suites with assertions"),
        (Suite([Case("f(1)", "1")], assertions=Assertions(("f",))), "needs the checker 'python', not 'lcb'"),
        (Suite([Case("f(1)", "1")], "f", "python", assertions=Assertions(("f",))), "."),
    ],
)
def test_a_suite_that_is_wrong_is_refused_in_words(box: Sandbox, suite: Suite, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        box.judge(Program("def f(x): return x"), suite)


@pytest.mark.parametrize(
    "flood",
    [
        b"[" + b"[]," * 3_000_000 + b"[]]",
        b'{"set":[' + b'{"tuple":[]},' * 1_000_000 + b"1]}",
        b"1" * (16 << 20),
        b'{"ratio":[' + b"1" * (8 << 20) + b",1]}",
        b"[" * (16 << 20),
        b'{"complex":[1,2]}',
        b'{"nothing":1}',
        b'{"bytes":"xyz"}',
        b'{"ratio":[1,0]}',
        b'{"dict":[[1]]}',
        b'{"dict":1}',
        b"{}",
    ],
)
def test_a_forged_value_is_a_wrong_answer(flood: bytes) -> None:
    suite = suite_of(("f(1)", "[[1, 2], {'a': [3]}]"))
    ran = CaseRun(RunResult(Outcome.EXITED, 0, b"", b"", 0, 0, 0, flood))
    assert judge(suite, lambda *_: ran).verdict is Verdict.WRONG_ANSWER


def test_records_may_have_such_tests(box: Sandbox) -> None:
    record = {
        "id": 1,
        "code": "def f(x): return twice(x)",
        "kind": "assertions",
        "names": ["f"],
        "given": "def twice(x): return 2 * x",
        "tests": [{"input": "f((1,))", "output": "(1, 1)"}],
    }
    assert decode(Record, record).to_suite().assertions == Assertions(("f",), "def twice(x): return 2 * x")
    (line,) = judge_lines(box, [(1, json.dumps(record))], run_all=False)
    assert line["verdict"] == "accepted"
    for change, words in (
        ({"names": []}, "needs field 'names'"),
        ({"given": 1}, "field 'given' must be a string, not 1"),
    ):
        with pytest.raises(ValueError, match=words):
            decode(Record, {**record, **change}).to_suite()


def test_views_of_dicts_equal_sets_as_they_do_in_python(box: Sandbox) -> None:
    assert verdict(box, "def f(x): return x.keys()", "f({1: 2})", "{1}") is Verdict.ACCEPTED
    assert verdict(box, "def f(x): return x.items()", "f({1: 2})", "{(1, 2)}") is Verdict.ACCEPTED
    assert verdict(box, "def f(x): return x.values()", "f({1: 2})", "{2}") is Verdict.WRONG_ANSWER


@pytest.mark.parametrize("depth", [200, 300, 5000])
def test_sets_in_sets_are_a_wrong_answer_and_no_loss_of_a_worker(box: Sandbox, depth: int) -> None:
    source = f"def f(x):\n    s = frozenset()\n    for _ in range({depth}): s = frozenset([s])\n    return s"
    assert verdict(box, source, "f(3)", "3") in (Verdict.WRONG_ANSWER, Verdict.RUNTIME_ERROR)
    assert verdict(box, f"{source.replace('return s', 'return dict([(s, 1)])')}", "f(3)", "3") is not Verdict.ACCEPTED
