# ruff: noqa: E501  programs of one line each are easier to compare
"""Tests that are statements run in a process of their own, and use the submission as if it were beside them."""

import pytest

from sandbox import Assertions, Case, Limits, Program, RefereeError, Sandbox, Suite, Verdict
from sandbox.judge import CaseJudgement

LIMITS = Limits(wall_seconds=5, memory_mb=256)
LIST_NODE = "class ListNode:\n    def __init__(self, val=0, next=None):\n        self.val, self.next = val, next\n"


def suite_of(
    *statements: str, names: tuple[str, ...] = ("f",), given: str = "", setup: str = "", limits: Limits = LIMITS
) -> Suite:
    cases = [Case(text, "") for text in statements]
    return Suite(
        cases,
        None,
        "python",
        limits,
        assertions=Assertions(names, given, setup, tuple(name for name in names if name[:1].isupper())),
    )


def first(box: Sandbox, source: str, suite: Suite) -> CaseJudgement:
    return box.judge(Program(source), suite).cases[0]


STACK = """
class Stack:
    def __init__(self, items=()): self.items = list(items)
    def push(self, item):
        self.items.append(item)
        return self
    def pop(self):
        if not self.items: raise Empty("empty", 3)
        return self.items.pop()
    @classmethod
    def of(cls, *items): return cls(items)
    def has(self, item): return item in self.items
    def same(self, other): return self == other
    @property
    def top(self): return self.items[-1]
    def __len__(self): return len(self.items)
    def __contains__(self, item): return item in self.items
    def __iter__(self): return iter(self.items)
    def __getitem__(self, place): return self.items[place]
    def __eq__(self, other): return isinstance(other, Stack) and self.items == other.items
    def __lt__(self, other): return len(self) < len(other)
    def __add__(self, other): return Stack(self.items + list(other))
    def __repr__(self): return f"Stack({self.items})"
    def __enter__(self): return self
    def __exit__(self, *_): self.items.clear()
class Empty(IndexError): pass
"""


@pytest.mark.parametrize(
    "statements",
    [
        "s = Stack()\ns.push(1).push(2)\nassert s.pop() == 2\nassert len(s) == 1 and s.items == [1] and s.top == 1",
        "assert 2 in Stack([1, 2]) and 3 not in Stack.of(1, 2)",
        "assert list(Stack([1, 2])) == [1, 2] and Stack([5])[0] == 5 and [x for x in Stack([7])] == [7]",
        "assert Stack([1]) == Stack([1]) and Stack([1]) != Stack([2]) and Stack([1]) != [1]",
        "assert Stack() < Stack([1]) and sorted([Stack([1]), Stack()])[0] == Stack()",
        "assert Stack([1]) + [2] == Stack([1, 2]) and repr(Stack([1])) == 'Stack([1])' and f'{Stack()}' == 'Stack([])'",
        "assert not Stack() and Stack([1]) and isinstance(Stack(), Stack) and issubclass(Empty, IndexError)",
        "import pytest\nwith pytest.raises(IndexError, match='empty') as info:\n    Stack().pop()\n"
        "assert info.type is Empty and info.value.args == ('empty', 3)",
        "try:\n    Stack().pop()\nexcept Empty as error:\n    assert error.args[1] == 3\nelse:\n    assert False",
        "with Stack([1]) as s:\n    assert s.top == 1\nassert len(s) == 0",
        "s = Stack([1])\ns.items = [4, 5]\ns.size = 2\nassert s.top == 5 and s.size == 2 and hasattr(s, 'push')\n"
        "assert not hasattr(s, 'nothing') and type(s) is Stack and type(s).__name__ == 'Stack'",
        "assert Stack.pop(Stack([3])) == 3 and callable(Stack) and callable(Stack().pop)",
        "import solution\nfrom solution import Stack as S, Empty\nassert solution.Stack is S",
        "assert Stack([1]) != 3 and not Stack([1]) == [1] and (Stack([1]) == Stack([1])) is True",
        "s = Stack()\ns.push(1)\nassert 1 in s and s.has(1) and s.push(1) is s",
        "s = Stack([1])\nt = s.push(2).push\nt(3)\nassert s.items == [1, 2, 3] and [*map(len, [s])] == [3]",
        "s = Stack.of(4)\ns.push(5)\ns.note = 3\nassert s.items == [4, 5] and s.pop() == 5 and s.note == 3",
        "assert Stack.of(1).same(Stack([1])) and not Stack.of(1).same(Stack.of(2))",
    ],
)  # fmt: skip
def test_a_class_of_the_submission_can_be_tested(box: Sandbox, statements: str) -> None:
    case = first(box, STACK, suite_of(statements, names=("Stack", "Empty")))
    assert case.verdict is Verdict.ACCEPTED, case


@pytest.mark.parametrize(
    ("source", "statements"),
    [
        ("def f(x): x.sort(); x.append(9)", "x = [3, 1]\ny = {'k': x}\nf(x)\nassert x == [1, 3, 9] and y['k'] is x"),
        ("def f(x, y): x['a'].add(2); y[0] = x", "x, y = {'a': {1}}, [0]\nf(x, y)\nassert x == {'a': {1, 2}} and y[0] is x"),
        ("def f(x): return x", "x = [1]\nassert f(x) is x and f((x, x))[0] is x"),
        ("def f(x): x.append(x)", "x = []\nf(x)\nassert x[0] is x"),
        ("def f(x): return x", "from collections import OrderedDict as O\nv = O(a=1, b=2)\nw = f(v)\nassert list(w) == ['a', 'b']"
                              " and [*w.items()] == [('a', 1), ('b', 2)] and repr(w) == repr(v) and w != O(b=2, a=1)"),
        ("from collections import OrderedDict\ndef f(): return OrderedDict([('b', 1), ('a', 2)])",
         "from collections import OrderedDict as O\nassert f() == O(b=1, a=2) and f() != O(a=2, b=1) and [*f()] == ['b', 'a']"),
        ("def f(d): d['z'] = d.pop('a')", "from collections import OrderedDict as O\nd = O(a=1, b=2)\nf(d)\nassert d == O(b=2, z=1)"),
        ("def f(d): d.move_to_end('a'); return list(d)",
         "from collections import OrderedDict as O\nd = O(a=1, b=2)\nassert f(d) == ['b', 'a'] == [*d] and d.popitem() == ('a', 1)"),
        ("from collections import *\ndef f(d): return d.keys(), d.values(), d.items(), OrderedDict(d).keys()",
         "d = {'a': 1, 'b': 2}\nk, v, i, o = f(d)\nassert k == {'a', 'b'} == o and list(v) == [1, 2] and i == d.items() and 'a' in k\n"
         "assert type(k) is type(d.keys()) and k & {'a'} == {'a'} and len(v) == 2 and sorted(i) == [('a', 1), ('b', 2)]"),
        ("def f(k): return sorted(k)", "assert f({2: 1, 1: 2}.keys()) == [1, 2] and f({2: 1, 1: 2}.items()) == [(1, 2), (2, 1)]"),
        ("from enum import *\nclass C(IntEnum):\n    A = 1\nclass S(str, Enum):\n    B = 'b'\ndef f(): return C.A, [S.B], {C.A: S.B}",
         "assert f() == (1, ['b'], {1: 'b'}) and f()[0] + 1 == 2"),
        ("from pathlib import *\ndef f(p): return p / 'x', PurePosixPath('a'), [PureWindowsPath('b')]",
         "from pathlib import *\nassert f(Path('/t')) == (Path('/t/x'), PurePosixPath('a'), [PureWindowsPath('b')])"),
        ("def f(x): return x, ..., NotImplemented", "assert f(...) == (..., ..., NotImplemented) and f(1)[1] is ..."),
        ("from functools import wraps\ndef f(g):\n    @wraps(g)\n    def inner(*a): return g(*a) + 1\n    return inner",
         "@f\ndef g(x):\n    'words'\n    return x\nassert g(1) == 2 and g.__name__ == g.__qualname__ == 'g' and g.__doc__ == 'words'"
         " and g.__wrapped__ is not None"),
        ("def f(g):\n    c = {}\n    def inner(n):\n        if n not in c: c[n] = g(n)\n        return c[n]\n    return inner",
         "@f\ndef fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\nassert fib(60) == 1548008755920"),
        ("class P:\n    def __init__(s, p): s.p = p\ndef f(k): return [x.p for x in sorted([P(3), P(1)], key=k)]",
         "assert f(lambda x: x.p) == [1, 3]"),
        ("import json\nf = json.loads", "import json, pytest\nwith pytest.raises(json.JSONDecodeError) as e: f('{')\n"
                                       "assert e.value.pos == 1 and isinstance(e.value, ValueError)"),
        ("from decimal import Decimal\nf = Decimal", "import decimal, pytest\nwith pytest.raises(decimal.InvalidOperation): f('x')"),
        ("import queue\nclass E(queue.Empty): pass\ndef f(x):\n    if x: raise E('none')\n    queue.Queue().get_nowait()",
         "import queue, pytest\nfor x in 0, 1:\n    with pytest.raises(queue.Empty): f(x)"),
        ("def f(x):\n    e = ValueError('no')\n    e.code = x\n    raise e", "try: f(5)\nexcept ValueError as e: assert e.code == 5\nelse: assert False"),
        ("def f(n): return 10 ** n", "assert len(str(f(6000))) == 6001 and str(f(2)) == '100'"),
        ("def f(n): return range(n)", "assert len(f(3)) == 3 and 2 in f(3) and f(3)[1] == 1"),
        ("class R:\n    def __init__(s, x): s.x = x\n    def __len__(s): return len(s.x)\n    def __iter__(s): return iter(s.x)\n"
         "    def __getitem__(s, i): return s.x[i]\ndef f(x): return R(x)",
         "r = f([3, 1])\nassert len(r) == 2 and [*r] == [3, 1] == [*r] and r[0] == 3 and r[-1] == 1 and r[1:] == [1] and 1 in r"),
        ("def f(g): return g, g.__name__", "def g(x): return x\nassert f(g)[0] is g and f(g)[1] == 'g' and f(len)[1] == 'len'"),
        ("def f(x): return x", "from collections import *\nfor v in (OrderedDict(a=1), Counter('ab'), deque([1], 3)):\n"
                              "    assert f(v) == v and type(f(v)) is type(v)"),
        ("def f(x): return x", "from datetime import *\nfrom decimal import Decimal as D\nfrom fractions import *\n"
                              "for v in (D('1.50'), Fraction(1, 3), date(2020, 1, 2), timedelta(1), range(3), b'x', 10**50,"
                              " float('inf'), 1j, bytearray(b'y'), None, int, '\\ud800', -0.0, {(1, 2): {3}}):\n"
                              "    assert f(v) == v and type(f(v)) is type(v), v"),
        ("def f(d): return d[5], sorted(d)", "from collections import *\nd = defaultdict(list, {1: [2]})\n"
                                            "assert f(d) == ([], [1, 5]) and d == {1: [2], 5: []} and d[6] == []"),
        ("from collections import *\ndef f(): return defaultdict(int)", "d = f()\nd['x'] += 2\nassert d == {'x': 2}"),
        ("from collections import *\nR = namedtuple('R', 'index count')\ndef f(): return R(3, [4])", "assert f().index == 3"),
        ("def f(x): return x", "from datetime import *\nz = timezone(timedelta(hours=2))\n"
                              "for v in (z, datetime(2020, 1, 2, 3, tzinfo=z), time(4, tzinfo=timezone.utc)):\n"
                              "    assert f(v) == v and repr(f(v)) == repr(v)"),
        ("def f(x): return x * 2.5", "from math import isnan\nassert isnan(f(float('nan'))) and f(2) == 5"),
        ("def f(n):\n    for i in range(n): yield i", "assert list(f(3)) == [0, 1, 2] and next(f(2)) == 0 and sum(f(4)) == 6"),
        ("def f(n): return map(str, range(n))", "assert ','.join(f(3)) == '0,1,2' and 2 not in f(2) and '1' in f(2)"),
        ("def f(n): return lambda x: x + n", "assert f(2)(3) == 5 and callable(f(1))"),
        ("def f(g, x): return [g(i) for i in x]", "seen = []\nassert f(seen.append, (1, 2)) == [None] * 2\nassert seen == [1, 2]"),
        ("def f(g, x): return sorted(x, key=g)", "assert f(lambda x: -x, [1, 3, 2]) == [3, 2, 1] and f(len, ['ab', 'c']) == ['c', 'ab']"),
        ("def f(g):\n    try: g()\n    except KeyError as error: return error.args", "def g(): raise KeyError('k')\nassert f(g) == ('k',)"),
        ("def f(x): return sum(x)", "assert f(i for i in range(4)) == 6 and f(iter([1])) == 1"),
        ("from collections import namedtuple\nP = namedtuple('P', 'a b')\ndef f(): return P(1, [2])", "assert f() == (1, [2]) and f().b == [2]"),
        ("class B(str): pass\ndef f(): return B('x'), [B('y')]", "assert f() == ('x', ['y']) and f()[0].upper() == 'X'"),
        ("def f(a, /, b=2, *c, d, **e): return a, b, c, d, e", "assert f(1, 3, 4, d=5, self=6) == (1, 3, (4,), 5, {'self': 6})"),
        ("class Node:\n    def __init__(s): s.value, s.next = 1, None\ndef f(): return Node()",
         "n = f()\nn.next = f()\nassert n.value == 1 and n.next.value == 1 and n.next.next is None"),
        ("import asyncio\ndef f(): print('noise', flush=True); return input", "assert callable(f())"),
        ("from functools import cache\n@cache\ndef f(n): return n if n < 2 else f(n - 1) + f(n - 2)", "assert f(80) == 23416728348467685"),
        ("def f(): return 2 ** 20000", "assert f() == 2 ** 20000"),
        ("f = set", "assert f([1, 1]) == {1}"),
        ("import numpy as np\ndef f(): return np.arange(3), np.int64(4)", "a, b = f()\nassert a == [0, 1, 2] and b == 4"),
    ],
)  # fmt: skip
def test_values_travel_as_if_there_were_no_border(box: Sandbox, source: str, statements: str) -> None:
    case = first(box, source, suite_of(statements))
    assert case.verdict is Verdict.ACCEPTED, case


def test_instances_of_given_classes_travel_by_value(box: Sandbox) -> None:
    source = (
        "def f(head):\n    before = None\n    while head:\n        head.next, before, head = before, head, head.next\n"
        "    return before"
    )
    statements = (
        "a = ListNode(1, ListNode(2))\nb = f(a)\n"
        "assert type(b) is ListNode and b.val == 2 and b.next is a and a.next is None"
    )
    assert first(box, source, suite_of(statements, given=LIST_NODE)).verdict is Verdict.ACCEPTED
    assert first(box, LIST_NODE + source, suite_of(statements, setup=LIST_NODE)).verdict is Verdict.ACCEPTED
    slots = "from dataclasses import dataclass\n@dataclass(frozen=True, slots=True)\nclass P:\n    x: int\n"
    case = first(
        box, "def f(p): return P(p.x + 1)", suite_of("assert f(P(1)) == P(2) and {f(P(1))} == {P(2)}", given=slots)
    )
    assert case.verdict is Verdict.ACCEPTED, case


@pytest.mark.parametrize(
    ("given", "source", "statements"),
    [
        ("from collections import namedtuple\nP = namedtuple('P', 'x index')", "def f(p): return P(p.x + 1, p.index)",
         "assert f(P(1, 2)) == P(2, 2) and type(f(P(1, 2))) is P and f(P(1, 2)).index == 2"),
        ("from typing import NamedTuple\nclass P(NamedTuple):\n    x: int", "def f(p): return [p, P(4)]",
         "assert f(P(3)) == [P(3), P(4)]"),
        ("from enum import Enum, Flag\nclass C(Enum):\n    A = 1\n    B = (2, 3)\nclass F(Flag):\n    X = 1\n    Y = 2",
         "def f(x): return {C.A: C.B, C.B: F.X | F.Y}[x]", "assert f(C.A) is C.B and f(C.B) == F.X | F.Y"),
        ("class Items(list): pass", "def f(x): return Items([*x, 3])", "assert f(Items([1])) == [1, 3]"),
    ],
)  # fmt: skip
def test_instances_of_given_tuples_and_enumerations_travel_by_value(
    box: Sandbox, given: str, source: str, statements: str
) -> None:
    case = first(box, source, suite_of(statements, given=given))
    assert case.verdict is Verdict.ACCEPTED, case


@pytest.mark.parametrize(
    ("statements", "words"),
    [
        ("x = 1\nassert f(1) == 2, 'message'", "AssertionError: message in line 2: assert f(1) == 2, 'message'"),
        ("raise KeyError(f(1))", "KeyError: 1"),
        ("f(1)\nraise SystemExit(0)", "SystemExit: 0"),
        ("import pytest\nwith pytest.raises(ValueError): f(1)", "DID NOT RAISE"),
        ("import pytest\npytest.fail(str(f(1)))", "Failed: 1"),
        ("f(1)\nimport nothing", "No module named 'nothing'"),
        ("assert g(1)", "NameError: name 'g' is not defined"),
        ("import pytest\ntry:\n    f(1)\n    pytest.fail('no error')\nexcept Exception: pass", "Failed: no error"),
        ("import pytest\nwith pytest.raises(Exception):\n    with pytest.raises(ValueError): f(1)", "DID NOT RAISE"),
        ("from solution import g", "ImportError: cannot import name 'g'"),
    ],
)
def test_a_test_that_raises_is_a_wrong_answer_in_words(box: Sandbox, statements: str, words: str) -> None:
    case = first(box, "def f(x): return x", suite_of(statements, names=("f", "g")))
    assert case.verdict is Verdict.WRONG_ANSWER
    assert words in case.detail


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(x): raise SystemExit(0)", Verdict.RUNTIME_ERROR),
        ("import os\ndef f(x): os._exit(0)", Verdict.RUNTIME_ERROR),
        ("import os\ndef f(x): os.kill(os.getpid(), 11)", Verdict.RUNTIME_ERROR),
        ("raise ValueError('at the top')", Verdict.RUNTIME_ERROR),
        ("def f(x): return (", Verdict.COMPILE_ERROR),
        ("def f(x): return bytearray(10**9)", Verdict.MEMORY_LIMIT),
        ("import ctypes\ndef f(x): ctypes.CDLL(None).ptrace(0, 0, 0, 0)", Verdict.SANDBOX_VIOLATION),
    ],
)
def test_a_submission_that_ends_passes_no_test_whatever_the_test_catches(
    box: Sandbox, source: str, expected: Verdict
) -> None:
    case = first(box, source, suite_of("try:\n    f(1)\nexcept BaseException:\n    pass"))
    assert case.verdict is expected, case


@pytest.mark.parametrize("source", ["def f(x):\n    while True: pass", "import time\ndef f(x): time.sleep(60)"])
def test_a_submission_that_hangs_is_out_of_time(box: Sandbox, source: str) -> None:
    case = first(box, source, suite_of("f(1)", limits=Limits(wall_seconds=0.2, memory_mb=256)))
    assert case.verdict is Verdict.TIME_LIMIT, case


@pytest.mark.parametrize(
    ("given", "setup", "words"),
    [
        ("1 / 0", "", "ZeroDivisionError"),
        ("", "1 / 0", "Assertions.setup: ZeroDivisionError"),
        ("", "def", "Assertions.setup does not compile"),
        ("(", "", "Assertions.given does not compile"),
        pytest.param("", "import time\ntime.sleep(60)", "before they used the submission", marks=pytest.mark.thorough),
        ("", "import os\nos._exit(0)", "before they used the submission"),
    ],
)
def test_tests_that_fail_by_themselves_are_not_held_against_the_submission(
    box: Sandbox, given: str, setup: str, words: str
) -> None:
    limits = Limits(wall_seconds=0.2, memory_mb=256)
    with pytest.raises(RefereeError, match=f"(?s)the suite's own tests failed: .*{words}"):
        box.judge(Program("def f(x): return x"), suite_of("f(1)", given=given, setup=setup, limits=limits))


def test_long_lists_of_nodes_travel(box: Sandbox) -> None:
    source = "def f(head):\n    n = 0\n    while head: n, head = n + 1, head.next\n    return ListNode(n)"
    statements = "head = None\nfor _ in range(5000): head = ListNode(0, head)\nassert f(head).val == 5000"
    case = first(box, source, suite_of(statements, given=LIST_NODE))
    assert case.verdict is Verdict.ACCEPTED, case


def test_objects_that_are_not_data_can_be_kept_and_given_back(box: Sandbox) -> None:
    source = "kept = []\ndef f(x):\n    if type(x) is int: return kept[x]\n    kept.append(x)\n    return x + 1"
    statements = (
        "import pytest\nx = object()\nwith pytest.raises(TypeError): f(x)\nassert f(0) is x\nassert f(f) is None"
    )
    case = first(box, source, suite_of(statements.rpartition("\n")[0]))
    assert case.verdict is Verdict.ACCEPTED, case
    local = "class Local: pass\nimport pytest\nwith pytest.raises(Exception): f(Local())"
    case = first(box, "def f(x): return x", suite_of(local))
    assert case.verdict is Verdict.WRONG_ANSWER
    assert "cannot decode a request of the test" in case.detail


def test_unittest_and_other_libraries_can_be_used(box: Sandbox) -> None:
    setup = (
        "import unittest\nfrom solution import f\nclass T(unittest.TestCase):\n"
        "    def setUp(self): self.value = 3\n"
        "    def test(self):\n        self.assertEqual(f(self.value), 3)\n"
        "        with self.assertRaises(TypeError): f()\n        self.assertAlmostEqual(f(0.1) + 0.2, 0.3)\n"
        "    def test_wrong(self): self.assertIn(4, f([3]))\n"
    )
    suite = suite_of("T('test').debug()", "T('test_wrong').debug()", setup=setup)
    right, wrong = box.judge(Program("def f(x): return x"), suite, run_all=True).cases
    assert right.verdict is Verdict.ACCEPTED, right
    assert wrong.verdict is Verdict.WRONG_ANSWER
    assert "4 not found in [3]" in wrong.detail


def test_the_stand_in_for_pytest_knows_approx_and_marks(box: Sandbox) -> None:
    statements = (
        "import pytest\nfrom pytest import approx\n@pytest.mark.parametrize('x', [1])\n@pytest.mark.slow\ndef test(x):\n"
        "    assert f(0.1) + 0.2 == approx(0.3) and f([0.1 + 0.2]) == approx([0.3]) and f(1) != approx(1.1)\n"
        "    assert f({'a': 1.0000001}) == approx({'a': 1}) and f(100) == approx(101, rel=0.1) == f(99.0)\n"
        "    assert f('a') == approx('a') and f(0.0) != approx(0.1, abs=0.01)\ntest(1)"
    )
    assert first(box, "def f(x): return x", suite_of(statements)).verdict is Verdict.ACCEPTED


def test_each_test_has_processes_of_its_own(box: Sandbox) -> None:
    suite = suite_of("assert f() == 1", "assert f() == 1 and f() == 2", setup="n = 0")
    assert box.judge(Program("n = 0\ndef f():\n    global n\n    n += 1\n    return n"), suite).accepted


V = """
class V:
    def __init__(self, x): self.x = x
    def __add__(self, other): return V(self.x + other.x)
    def __lt__(self, other): return self.x < getattr(other, "x", other)
    def __eq__(self, other): return self.x == other.x
    def with_(self, x): return V(x)
"""


@pytest.mark.parametrize(
    "statements",
    [
        "import pytest\nwith pytest.raises(TypeError): V(1) < 5",
        "import pytest\nwith pytest.raises(TypeError): (V(1) + V(2)) + 'a'\nraise SystemExit",
        "import pytest\nwith pytest.raises(TypeError):\n    class W(V): pass\n    W(1)",
        "import copy, pytest\nwith pytest.raises(TypeError): copy.copy(V(1))",
        "import pytest\nwith pytest.raises(TypeError): x = V(1).with_(2).with_(3)",
        "assert V(1) != 'a'",
        "assert not (V(1) == None)",
    ],
)
def test_what_the_border_refuses_is_no_exception_that_a_test_may_expect(box: Sandbox, statements: str) -> None:
    assert first(box, V, suite_of(statements, names=("V",))).verdict is Verdict.WRONG_ANSWER
