"""Tests that are Python code become assertion suites; nothing is executed to read them."""

import sys

import pytest

from curate.reading.dialects import assertions, detection
from curate.reading.values import ParseError
from sandbox import Case
from sandbox.languages import _pytest


def cases(code, *arguments, **keywords):
    return assertions.read(code, *arguments, **keywords).cases


def taken_out(code, *arguments, **keywords):
    """Return the calls and expected values; every test must have one."""
    read = cases(code, *arguments, **keywords)
    assert all(case.expected for case in read)
    return [(case.input, case.expected) for case in read]


def statements(code, *arguments, **keywords):
    read = cases(code, *arguments, **keywords)
    assert not any(case.expected for case in read)
    return [case.input for case in read]


@pytest.mark.parametrize(
    ("code", "call", "expected"),
    [
        ("assert f(1, k=[2]) == (3,), 'message'", "f(1, k=[2])", "(3,)"),
        ("assert {1: -2.5} == f()", "f()", "{1: -2.5}"),
        ("assert f(3 * 19, 'ab' + 'c' * 2) == 2 ** 10", "f(57, 'abcc')", "1024"),
        ("assert f(*[1, 2]) == tuple([1, 2])", "f(1, 2)", "(1, 2)"),
        ("assert f({3, 1, 2}) == set()", "f({1, 2, 3})", "set()"),
        ("assert f(frozenset([1])) == float('-inf')", "f(frozenset({1}))", "-1e999"),
        ("assert f(None) is None", "f(None)", "None"),
        ("assert Solution().g(a=1) == 2", "Solution().g(a=1)", "2"),
        ("x = [1]\ny = 2\nassert f(x) == y", "f([1])", "2"),
        ("result = f(1)\nassert result == 2", "f(1)", "2"),
    ],
)
def test_the_expected_value_is_taken_out_of_an_equation_of_literals(code, call, expected):
    assert taken_out(code) == [(call, expected)]


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("assert f(1)", id="truth is not equality with True"),
        pytest.param("assert f(1) is True", id="1 is not True"),
        pytest.param("assert not f(1)", id="negation"),
        pytest.param("assert f(1) != 2", id="inequality"),
        pytest.param("assert set(f(1)) == {2}", id="a call around it"),
        pytest.param("assert abs(f(1) - 2) < 1e-6", id="tolerance"),
        pytest.param("assert f(1) == f(2)", id="two calls"),
        pytest.param("assert f(1) == 9 ** 9 ** 9", id="a value too large to compute"),
        pytest.param("assert f('a' * 10 ** 9) == 1", id="a text too long to compute"),
        pytest.param("assert f(1)[0] == 2", id="a part"),
    ],
)
def test_everything_else_stays_as_it_is(code):
    (case,) = cases(code)
    assert (case.expected, "f(" in case.input) == ("", True)


def test_a_test_keeps_the_statements_that_it_needs_and_no_others():
    code = """
import random
unused = 5
table = [1, 2]
print("hello")
assert f(0) == 0
for x in range(3):
    assert f(x) == table[0]
other = sorted(table)
assert f(*other) > 1
"""
    first, loop, last = cases(code)
    assert first == Case("f(0)", "0")
    assert loop.input == "table = [1, 2]\nfor x in range(3):\n    assert f(x) == table[0]"
    assert last.input.splitlines()[0] == "table = [1, 2]"
    assert last.input.splitlines()[-2:] == ["other = sorted(table)", "assert f(*other) > 1"]


def test_tests_of_one_object_keep_what_was_done_to_it_before():
    code = "c = Cache(2)\nc.put(1, 1)\nassert c.get(1) == 1\nc.put(2, 2)\nassert c.get(2) == 2\nassert other(1) == 1"
    first, second, third = cases(code)
    assert first.input == "c = Cache(2)\nc.put(1, 1)\nassert c.get(1) == 1"
    assert second.input == "c = Cache(2)\nc.put(1, 1)\nassert c.get(1) == 1\nc.put(2, 2)\nassert c.get(2) == 2"
    assert third.input.endswith("assert other(1) == 1")  # what came before may have changed what it returns


def test_a_value_that_a_call_may_have_changed_is_not_taken_for_what_it_was():
    assert cases("x = [3, 1]\nassert f(x) == 1\nassert f(x) == 3") == (
        Case("f([3, 1])", "1"),
        Case("x = [3, 1]\nassert f(x) == 1\nassert f(x) == 3", ""),
    )


def test_examples_are_taken_out_of_loops_over_literals():
    code = "pairs = [(1, 2), (3, 4)]\nfor i, (x, y) in enumerate(pairs):\n    assert f(x) == y"
    assert taken_out(code) == [("f(1)", "2"), ("f(3)", "4")]


def test_each_turn_of_a_loop_that_only_asserts_is_a_test_unless_the_turns_share_an_object():
    loop = "for x in [1, 2]:\n    assert f(x) == x\n    assert f(x) != 3"
    assert statements(loop) == [f"for x, in [({x},)]:\n    assert f(x) == x\n    assert f(x) != 3" for x in (1, 2)]
    popped = "stack = f()\nfor x in [2, 1]:\n    assert stack.pop() == x"
    assert statements(popped) == [popped]
    summed = "total = 0\nfor x in [2, 1]:\n    total += f(x)\n    assert total > 1"
    assert statements(summed) == [summed]


CHECK = "METADATA = {}\n\ndef check(candidate):\n    assert candidate(1) == 2\n    assert candidate(2) in (3, 4)\n"


def test_a_check_is_for_the_entry_point():
    read = assertions.read(CHECK, "f")
    assert read.assertions.names == ("f",)
    assert read.cases == (Case("f(1)", "2"), Case("assert f(2) in (3, 4)", ""))
    assert read.assertions.setup == ""
    assert assertions.read(f"{CHECK}\ncheck(Solution().f)").assertions.names == ("Solution",)
    assert taken_out(CHECK.splitlines()[2] + "\n    assert candidate(a=1) == 2", "Solution().f") == [
        ("Solution().f(a=1)", "2")
    ]


def test_given_code_and_setup_are_kept_and_what_they_define_is_not_asked_of_submissions():
    read = assertions.read(
        "import copy\ndef near(a, b):\n    assert abs(a - b) < EPS\nEPS = .1\n"
        "near(f(1), make(2))\nassert f(copy.copy(inf)) == inf",
        preamble="inf = float('inf')\ndef make(x):\n    return x",
        setup="import math",
    )
    assert read.assertions.names == ("f",)
    assert read.assertions.given.startswith("inf =")
    assert read.assertions.setup.splitlines()[0] == "import math"
    assert "EPS = 0.1" in read.assertions.setup
    assert [case.input for case in read.cases] == ["near(f(1), make(2))", "assert f(copy.copy(inf)) == inf"]
    assert taken_out("assert f(inf) == -inf", preamble="inf = float('inf')") == [("f(1e999)", "-1e999")]


def test_modules_that_only_the_solution_imports_are_imported_for_the_tests():
    read = assertions.read(
        ["assert f(1) == sys.getsizeof(1)", "assert sum(1, 2) == 3"], defined_names=["f", "sum", "help"]
    )
    assert (read.assertions.names, read.assertions.setup) == (("f", "sum"), "import sys")


MODULE = """
import pytest
from solution import f, Stack as S

ROWS = [(1, 2), (3, 4)]

def test_equal():
    assert f(1) == 2
    assert f(2) == 3

def test_one():
    s = S()
    s.push(1)
    assert s.pop() == 1

@pytest.mark.parametrize("x, y", ROWS)
def test_rows(x, y):
    assert f(x) == y

@pytest.mark.parametrize("x", ["a", None])
def test_errors(x):
    with pytest.raises(TypeError):
        f(x)

@pytest.mark.skip
def test_later():
    assert f(9) == 9

if __name__ == "__main__":
    pytest.main()
"""


def test_test_functions_are_tests_and_those_of_examples_are_taken_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "pytest", _pytest)  # what tests import in the sandbox
    read = assertions.read(MODULE)
    assert read.assertions.names == ("f", "Stack")
    examples = [case for case in read.cases if case.expected]
    assert examples == [Case("f(1)", "2"), Case("f(2)", "3"), Case("f(1)", "2"), Case("f(3)", "4")]
    calls = [case.input.splitlines()[-1] for case in read.cases if not case.expected]
    assert calls == ["test_one()", "test_errors(x='a')", "test_errors(x=None)"]
    setup = {}
    exec(read.assertions.setup, {"Stack": list, "__name__": "setup"}, setup)
    assert setup["S"] is list
    with setup["pytest"].raises(ValueError, match="for int"):
        int("a")
    with pytest.raises(_pytest.Failed), setup["pytest"].raises(ValueError):
        int("1")
    near = setup["pytest"].approx
    assert near(0.3) == 0.1 + 0.2
    assert near([1, {"a": 2.0}]) == [1 + 1e-9, {"a": 2.0}]
    assert near(1.0, abs=0.1) != 1.2
    assert near("a") != "b"


def test_classes_of_unittest_and_pytest_are_read():
    code = """
import unittest
from solution import f

class Words(unittest.TestCase):
    def setUp(self):
        self.x = 1
    def test_a(self):
        self.assertEqual(f(self.x), 2)
    def test_b(self):
        self.assertEqual(f(3), 4)

class Plain(unittest.TestCase):
    def test_c(self):
        self.assertEqual(f(5), 6, "six")
    def test_d(self):
        self.assertTrue(f(7))

class TestMore:
    def test_e(self):
        assert f(8) > 1
"""
    read = assertions.read(code)
    assert [(case.input, case.expected) for case in read.cases] == [
        ('unittest.TestSuite([Words("test_a")]).debug()', ""),
        ('unittest.TestSuite([Words("test_b")]).debug()', ""),
        ("f(5)", "6"),
        ('unittest.TestSuite([Plain("test_d")]).debug()', ""),
        ("test = TestMore()\ntest.test_e()", ""),
    ]
    assert "class Words(unittest.TestCase)" in read.assertions.setup


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("assert 1 == 1", "nothing that a submission could define"),
        ("f(1)", "assert nothing"),
        ("assert f(", "a test cannot be read"),
        ("def check(candidate):\n    assert candidate(1) == 1", "not named"),
        ("def check(candidate):\n    return candidate(1) == 1\ncheck(f)", "returns something"),
        ("def test_a(tmp_path):\n    assert f(1)", "needs the fixture tmp_path"),
        ("import pytest\ndef test_a():\n    pytest.importorskip('x')\n    assert f(1)", "pytest.importorskip"),
        ("@patch('x')\ndef test_a(x):\n    assert f(1)", "a test is decorated: patch"),
        ("async def test_a():\n    assert f(1)", "coroutine"),
        ("(" * 100_000, "cannot be read"),
        (7, "a test is int, not text"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(code, message):
    with pytest.raises(ParseError, match=message):
        assertions.read(code)


def test_checks_of_examples_stay_calls_where_sources_had_them_as_calls():
    check = "def check(candidate):\n    assert candidate(1) == 2\n\n\ncheck(f)"
    assert detection.read({"functional": check}).entry_point == "f"
    assert detection.read(check).assertions is None
    assert detection.read(check, preamble="import math").cases == (Case("f(1)", "2"),)
    assert detection.read(CHECK, "f").assertions.names == ("f",)
    assert detection.read(["assert f(1) == 2"]).assertions.names == ("f",)
    assert detection.read(CHECK, "g", "class Solution:\n    def g(self, x):").cases[0] == Case("Solution().g(1)", "2")
