"""In programs whose functions are called, the right one is chosen, given its arguments, and judged by its value."""

import json
from typing import Any

import pytest

from sandbox import Case, Limits, Program, Sandbox, Suite, Verdict

LIMITS = Limits(wall_seconds=5, memory_mb=512)


def call(box: Sandbox, source: str, arguments: list[Any], expected: Any, name: str = "f") -> Verdict:
    """Return the verdict on a program that should return `expected`; if that is a text, it is read as JSON."""
    case = Case(json.dumps(arguments), expected if isinstance(expected, str) else json.dumps(expected))
    suite = Suite([case], entry_point=name, checker="tokens", limits=LIMITS)
    return box.judge(Program(source), suite).verdict


@pytest.mark.parametrize(
    ("name", "source"),
    [
        pytest.param("f", "def f(x): return x", id="function"),
        pytest.param("f", "f = lambda x: x", id="lambda"),
        pytest.param("f", "class C:\n    def __call__(self, x): return x\nf = C()", id="callable object"),
        pytest.param("f", "from functools import *\n@cache\ndef f(x): return x", id="decorated"),
        pytest.param("f", "class Solution:\n    def f(self, x): return x", id="method"),
        pytest.param("f", "class Solution:\n    @staticmethod\n    def f(x): return x", id="static method"),
        pytest.param("f", "class Solution:\n    @classmethod\n    def f(cls, x): return x", id="class method"),
        pytest.param("f", "class B:\n    def f(self, x): return x\nclass Solution(B): pass", id="inherited"),
        pytest.param("f", "class Solution: pass\ndef f(x): return x", id="class without the method"),
        pytest.param("f", "class Solution:\n    def f(self, x): return 0\nclass Solution:\n"
                          "    def f(self, x): return x", id="last definition"),
        pytest.param("f", "def f(x, y=2, *rest, key=3, **more): return x", id="defaults"),
        pytest.param("add", "def add(x): return x", id="named like operator.add"),
        pytest.param("pow", "def pow(x): return x", id="named like a builtin"),
        pytest.param("print", "class Solution:\n    def print(self, x): return x", id="method named like a builtin"),
        pytest.param("run", "def run(x): return x", id="named like ours"),
        pytest.param("größe", "def größe(x): return x", id="beyond ASCII"),
        pytest.param("f", "list = dict = type = isinstance = json = sys = os = None\ndef f(x): return x", id="shadows"),
        pytest.param("f", "import json\njson.loads = json.dumps = None\ndef f(x): return x", id="patched json"),
        pytest.param("f", "print('hi')\ndef f(x):\n    print(x)\n    return x", id="prints"),
        pytest.param("f", "import sys\ndef f(x):\n    sys.stdout.close()\n    return x", id="closes stdout"),
        pytest.param("f", "import sys\ndef f(x): return x + len(sys.stdin.read())", id="finds stdin empty"),
        pytest.param("f", "def f(x): return x\nif __name__ == '__main__':\n    f(int(input()))", id="script's guard"),
        pytest.param("f", "from __future__ import annotations\ndef f(x: Nobody) -> Knows: return x", id="annotations"),
        pytest.param("f", "def f(x: Optional[List[int]]) -> Dict[str, Any]: return x", id="typing is there"),
        pytest.param("f", "def f(x): return gcd(x, heappop([x]), sum(Counter([x])), *accumulate([x]))",
                     id="usual imports are there"),
        pytest.param("f", "import pickle\nclass A: x = 5\ndef f(x): return pickle.loads(pickle.dumps(A())).x",
                     id="pickle"),
        pytest.param("f", "import inspect\ndef f(x): return x * ('return' in inspect.getsource(f))", id="own source"),
        pytest.param("f", "from multiprocessing import Pool\ndef g(x): return x\ndef f(x):\n"
                          "    with Pool(2) as pool: return pool.map(g, [x])[0]", id="pool"),
        pytest.param("f", "import threading, time\ndef f(x):\n"
                          "    threading.Thread(target=time.sleep, args=(30,), daemon=True).start()\n    return x",
                     id="daemon thread"),
    ],
)  # fmt: skip
def test_the_right_function_is_called(box: Sandbox, name: str, source: str) -> None:
    assert call(box, source, [5], 5, name) is Verdict.ACCEPTED


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("None", "null"), ("True", "true"), ("0", "0"), ("-0.0", "0.0"), ("0.1 + 0.2", "0.3"), ("3", "3.0"),
        ("3.0", "3"), ("float('inf')", "Infinity"), ("10**5000", "1" + "0" * 5000), ("'é😀\\0\\n'", '"é😀\\u0000\\n"'),
        ("'\\ud800'", '"\\ud800"'), ("''", '""'), ("[]", "[]"), ("{}", "{}"), ("(1, (2, [3]))", "[1, [2, [3]]]"),
        ("[[1], [1]]", "[[1], [1]]"), ("{'a': [1, {'b': None}]}", '{"a": [1, {"b": null}]}'),
        ("{1: 2, None: 3}", '{"1": 2, "null": 3}'), ("Counter('aab')", '{"a": 2, "b": 1}'),
        ("OrderedDict(b=1, a=2)", '{"a": 2, "b": 1}'), ("namedtuple('P', 'x y')(1, 2)", "[1, 2]"),
        ("type('S', (str,), {})('a')", '"a"'), ("type('L', (list,), {})([1])", "[1]"),
        ("__import__('enum').IntEnum('E', 'A').A", "1"), ("list(range(100_000))", json.dumps(list(range(100_000)))),
        ("__import__('functools').reduce(lambda v, _: [v], range(900), 1)", "[" * 900 + "1" + "]" * 900),
    ],
    ids=lambda text: text[:40],
)  # fmt: skip
def test_a_returned_value_equals_its_json(box: Sandbox, expression: str, expected: str) -> None:
    assert call(box, f"def f(): return {expression}", [], expected) is Verdict.ACCEPTED


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("numpy.int64(5)", "5"), ("numpy.float64(0.5)", "0.5"), ("numpy.bool_(True)", "true"),
        ("numpy.arange(4).reshape(2, 2)", "[[0, 1], [2, 3]]"), ("[numpy.int32(1), numpy.float32(0.5)]", "[1, 0.5]"),
    ],
)  # fmt: skip
def test_numpy_values_compare_by_their_content(box: Sandbox, expression: str, expected: str) -> None:
    pytest.importorskip("numpy")
    assert call(box, f"import numpy\ndef f(): return {expression}", [], expected) is Verdict.ACCEPTED


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("None", "[]"), ("None", "false"), ("0", "false"), ("1", "true"), ("True", "1"), ("'1'", "1"), ("1", '"1"'),
        ("[1]", "1"), ("[2, 1]", "[1, 2]"), ("[1, 2, 3]", "[1, 2]"), ("{'a': 1}", '{"a": 1, "b": 2}'),
        ("float('nan')", "3.5"), ("float('nan')", "NaN"), ("1.001", "1.0"), ("10**18", "1000000000000000001"),
        ("1e18", "1000000000000000001"), ("'YES'", '"yes"'), ("'a '", '"a"'), ("['a', 'b']", '"ab"'),
        ("10**200_000", "1"),
    ],
    ids=lambda text: text[:40],
)  # fmt: skip
def test_another_value_is_a_wrong_answer(box: Sandbox, expression: str, expected: str) -> None:
    assert call(box, f"def f(): return {expression}", [], expected) is Verdict.WRONG_ANSWER


@pytest.mark.parametrize(
    "expression",
    ["object()", "int", "f", "...", "b'1'", "1j", "(1 for _ in [1])", "range(1)", "map(int, '1')", "{1: 1}.keys()",
     "__import__('decimal').Decimal(1)", "__import__('fractions').Fraction(1)", "deque([1])", "{1}"],
)  # fmt: skip
def test_a_value_that_is_not_json_is_not_accepted(box: Sandbox, expression: str) -> None:
    for expected in ("1", "[1]", "null", '""'):
        seen = call(box, f"def f(): return {expression}", [], expected)
        assert seen in {Verdict.WRONG_ANSWER, Verdict.RUNTIME_ERROR}


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("def g(x): return x", id="other name"),
        pytest.param("", id="nothing"),
        pytest.param("f = 5", id="no function"),
        pytest.param("def f(): return 5", id="too few parameters"),
        pytest.param("def f(x, y): return 5", id="too many parameters"),
        pytest.param(
            "class Solution:\n    def __init__(self, x): pass\n    def f(self, x): return 5", id="constructor"
        ),
        pytest.param("def f(x): raise ValueError", id="exception"),
        pytest.param("1 / 0\ndef f(x): return 5", id="exception before"),
        pytest.param("import sys\ndef f(x): sys.exit(0)", id="exit"),
        pytest.param("import os\ndef f(x): os._exit(0)", id="hard exit"),
        pytest.param("def f(x): return int(input())", id="reads input"),
        pytest.param("def f(x): return f(x)", id="recursion"),
        pytest.param("def f(x):\n    a = []\n    a.append(a)\n    return a", id="cycle"),
    ],
)
def test_a_call_that_cannot_return_is_a_runtime_error(box: Sandbox, source: str) -> None:
    for expected in (5, None):
        assert call(box, source, [5], json.dumps(expected)) is Verdict.RUNTIME_ERROR


@pytest.mark.parametrize("name", ["gcd", "sum", "sqrt", "reduce"])
def test_a_library_function_is_not_the_programs_own(box: Sandbox, name: str) -> None:
    assert call(box, "pass", [4, 6], 2, name) is Verdict.RUNTIME_ERROR


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("calls = []\ndef f(x):\n    calls.append(x)\n    return len(calls)", id="global"),
        pytest.param("class Solution:\n    calls = []\n    def f(self, x):\n        self.calls.append(x)\n"
                     "        return len(self.calls)", id="class"),
        pytest.param("def f(x, calls=[]):\n    calls.append(x)\n    return len(calls)", id="default"),
        pytest.param("import math\ndef f(x):\n    math.n = getattr(math, 'n', 0) + 1\n    return math.n", id="module"),
    ],
)  # fmt: skip
def test_each_call_runs_in_a_fresh_process(box: Sandbox, source: str) -> None:
    cases = [Case("[1]", "1")] * 3
    assert box.judge(Program(source), Suite(cases, entry_point="f", limits=LIMITS)).accepted


def test_arguments_are_given_as_they_are(box: Sandbox) -> None:
    arguments = [1, 2.5, None, True, "é\0\ud800", [[], {}], {"a": {"b": [1]}}, 10**300, float("inf")]
    source = "def f(*given): return list(given)"
    assert call(box, source, arguments, arguments) is Verdict.ACCEPTED


def test_long_arguments_arrive(box: Sandbox) -> None:
    assert call(box, "def f(a, s): return [sum(a), len(s)]", [list(range(300_000)), "x" * 10**6],
                [sum(range(300_000)), 10**6]) is Verdict.ACCEPTED  # fmt: skip
    long = "9" * 6000
    suite = Suite([Case(f"[{long}]", long)], entry_point="f", limits=LIMITS)
    assert box.judge(Program("def f(x): return x"), suite).accepted


def test_recursion_may_be_deep_in_calls(box: Sandbox) -> None:
    assert call(box, "def f(n): return n and 1 + f(n - 1)", [20_000], 20_000) is Verdict.ACCEPTED
    source = "import sys\nsys.setrecursionlimit(10**6)\ndef f(n): return n and 1 + f(n - 1)"
    assert call(box, source, [100_000], 100_000) is Verdict.ACCEPTED
