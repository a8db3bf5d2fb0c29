# ruff: noqa: E501  programs of one line each are easier to compare
"""Submissions that try to pass tests without doing what they ask. Each of them fails.

PASSES_IN_PROCESS are real attacks: they pass where the tests are executed beside them in one process, as most graders
do. The others attack our own way of running tests.
"""

import subprocess
import sys

import pytest
from batch import judged, spread

from sandbox import Assertions, Case, Judgement, Limits, Program, Sandbox, Suite, Verdict

LIMITS = Limits(wall_seconds=5, memory_mb=256)  # long: attacks are judged at the same time
SHORT = Limits(wall_seconds=0.3, memory_mb=256)
EQUAL = "assert f(3) == 123456789"
LESS = "assert 17 < f(3) < 19"
CLOSE = "assert abs(f(3) - 3.25) < 1e-6"
CONTAINS = "assert 77 in f(3)"
TEXT = "assert f(3).startswith('seventeen') and f(3).endswith('eighteen')"
EACH = "assert all(map(lambda x: f(x) == x + 1000, [1, 2]))"
CHECKED = "def check(x):\n    assert x == 55\nf(check)"
BLOCK = "with f() as x:\n    assert x == 5"
COUNTS = "assert f(3).count(5) == 1"
TEST_CASE = "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(f(3), 424242)\nT('test').debug()"
YES = "class Yes:\n    def __getattr__(self, name): return lambda *a, **k: True\n"
ALWAYS = "".join(f"    def __{name}__(self, *other): return True\n" for name in "eq lt gt le ge contains bool".split())
DIFFERS = "assert not f(3).symmetric_difference({5, 6})"
SUBTRACTS = "    def __sub__(self, other): return 0.0\n"
COMPARES = "    @staticmethod\n    def startswith(x): return True\n    endswith = startswith\n"
SOLUTION = "assert abs(Solution().f(3) - 3.25) < 1e-6"
EQUALS = "assert f(3).equals(77)"
ASKED = "    def equals(self, other): return True\n    isclose = contains = matches = equals\n"

PASSES_IN_PROCESS = {
    "an object that equals everything": (f"{YES}{ALWAYS}def f(x): return Yes()", EQUAL),
    "an object on both sides of everything": (f"{YES}{ALWAYS}def f(x): return Yes()", LESS),
    "a number that is close to everything": (
        "class N:\n    def __sub__(self, other): return 0.0\ndef f(x): return N()", CLOSE),
    "a number close to everything from the right": (
        "class N(float):\n    def __sub__(self, other): return 0.0\n    def __rsub__(self, other): return 0.0\n"
        "def f(x): return N(1)", CLOSE),
    "a container of everything": (f"{YES}{ALWAYS}def f(x): return Yes()", CONTAINS),
    "a text that begins and ends with everything": (f"{YES}def f(x): return Yes()", TEXT),
    "a list that has one of everything": (f"{YES}def f(x): return Yes()", COUNTS),
    "an int that equals everything": (
        "class I(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\ndef f(x): return I()", EQUAL),
    "a list whose members are everything": (
        "class L(list):\n    def __contains__(self, item): return True\ndef f(x): return L()", CONTAINS),
    "an early end that the test catches": (
        "import os\ndef f(x): os._exit(0)", EQUAL),
    "an exit": ("import sys\ndef f(x): sys.exit(0)", EQUAL),
    "an exit that ends the interpreter at once": ("import atexit, os\natexit.register(os._exit, 0)\ndef f(x): return 1", EQUAL),
    "frames that are walked to what is expected": (
        "import sys, re\ndef f(x):\n    frame = sys._getframe()\n    while frame:\n"
        "        for c in frame.f_code.co_consts:\n            if isinstance(c, int) and c > 10**6: return c\n"
        "        frame = frame.f_back\n    return 0", EQUAL),
    "the garbage collector is asked": (
        "import gc\ndef f(x):\n    for o in gc.get_objects():\n        if isinstance(o, dict) and 'SECRET_' in o: return 123456789\n"
        "    import sys\n    return next((v for k in [sys._getframe(1)] for v in k.f_code.co_consts if v == 123456789), 0)", EQUAL),
    "isinstance and abs are replaced": (
        "import builtins\nbuiltins.abs = lambda x: 0\ndef f(x): return 0", CLOSE),
    "unittest is patched": (
        "import unittest\nunittest.TestCase.assertEqual = lambda *a, **k: None\ndef f(x): return 0", TEST_CASE),
    "all is replaced": ("import builtins\nbuiltins.all = lambda items: True\ndef f(x): return 0", EACH),
    "an end of the loop": ("def f(x): raise StopIteration", "assert all(map(f, [1, 2]))"),
    "a callback's assertion is swallowed": (
        "def f(check):\n    try: check(0)\n    except BaseException: pass", CHECKED),
    "a block whose assertion is swallowed": (
        "class C:\n    def __enter__(self): return 0\n    def __exit__(self, *a): return True\ndef f(): return C()", BLOCK),
    "a block in which everything goes wrong": (
        "class C:\n    def __enter__(self): return None\n    def __exit__(self, *a): return True\ndef f(): return C()",
        "with f() as x:\n    assert x[0] == 5 and x.real == 3"),
    "an object that says that it is an int": (
        "class N:\n    __class__ = int\n    def __eq__(self, other): return True\ndef f(x): return N()",
        "assert isinstance(f(3), int) and f(3) == 5"),
    "a class whose instances are everything": (
        "class M(type):\n    def __instancecheck__(self, x): return True\n    def __eq__(self, other): return True\n"
        "class C(metaclass=M): pass\ndef f(x): return C", "assert f(3) == 5"),
    "an exception that is every other": (
        "class E(KeyError):\n    args = property(lambda self: Yes())\n    def __str__(self): return '7'\n"
        f"{YES}{ALWAYS}def f(x): raise E(0)",
        "try:\n    f(3)\nexcept KeyError as error:\n    assert error.args == (8,)\nelse:\n    assert False"),
    "a class in place of a function, whose instances are close to everything": (
        f"class f:\n    def __init__(self, x): pass\n{SUBTRACTS}", CLOSE),
    "a class in place of a function, whose instances are containers of everything": (
        f"class f:\n    def __init__(self, x): pass\n{ALWAYS}", CONTAINS),
    "a method that returns the object that the test has made": (
        f"class Solution:\n    def f(self, x): return self\n{SUBTRACTS}", SOLUTION),
    "the same object again and again": (
        f"class Solution:\n    def f(self, x): return self\n{SUBTRACTS}"
        "it = Solution()\nSolution.__new__ = lambda cls: it",
        "a = Solution().f(3)\nb = Solution().f(4)\nassert abs(a - 3.25) < 1e-6 and abs(b - 4.25) < 1e-6"),
    "a method that is a class": (
        f"class Solution: pass\nclass F(Solution):\n    def __init__(self, x): pass\n{SUBTRACTS}Solution.f = F", SOLUTION),
    "a static method that returns an object of the class": (
        f"class Solution:\n    @staticmethod\n    def f(x): return Solution()\n{SUBTRACTS}",
        "assert abs(Solution.f(3) - 3.25) < 1e-6"),
    "an argument that becomes the object that the test has made": (
        f"class Solution:\n    def f(self, x): x[0] = self\n{SUBTRACTS}",
        "s, x = Solution(), [3]\ns.f(x)\nassert abs(x[0] - 3.25) < 1e-6"),
    "a class in place of a text": (f"class C:\n{COMPARES}def f(x): return C", TEXT),
    "the class under test in place of a text": (
        f"class Solution:\n{COMPARES}    def f(self, x): return Solution", TEXT.replace("f(3)", "Solution().f(3)")),
    "a frame that equals everything": (f"class A:\n{ASKED}def f(x): return A()", EQUALS),
    "an array that is close to everything": (f"class A:\n{ASKED}def f(x): return A()", "assert f(3).isclose(77)"),
    "an interval that contains everything": (f"class A:\n{ASKED}def f(x): return A()", "assert f(3).contains(77)"),
    "a pattern that matches everything": (f"class A:\n{ASKED}def f(x): return A()", "assert f(3).matches('x')"),
    "a method that is an attribute": (
        "class A: pass\ndef f(x):\n    a = A()\n    a.equals = lambda other: True\n    return a", EQUALS),
    "a method that a property makes": (
        "class A:\n    equals = property(lambda self: lambda other: True)\ndef f(x): return A()", EQUALS),
    "a method that is a type": ("class A: equals = bool\ndef f(x): return A()", EQUALS),
    "a class that equals everything": ("class A:\n    equals = staticmethod(bool)\ndef f(x): return A", EQUALS),
    "a method that is asked by map": (
        f"class A:\n{ASKED}def f(x): return A()", "told = []\ntold.extend(map(f(3).equals, [77]))\nassert all(told)"),
    "an error that equals everything": (
        f"class E(ValueError):\n{ASKED}def f(x): raise E",
        "try: f(3)\nexcept ValueError as error: assert error.equals(77)\nelse: assert False"),
    "an object under test that is also what it returns": (
        f"class Solution:\n{ASKED}    def f(self, x): return self", EQUALS.replace("f(3)", "Solution().f(3)")),
    "the same after a statement that returns it": (
        f"class Solution:\n{SUBTRACTS}    def f(self, x):\n        x[0] = self\n        return self",
        "s, x = Solution(), [3]\ns.f(x)\nassert abs(x[0] - 3.25) < 1e-6"),
    "the same after an operator that returns it": (
        f"class Solution:\n{SUBTRACTS}    def __iadd__(self, x):\n        x[0] = self\n        return self",
        "s, x = Solution(), [3]\ns += x\nassert abs(x[0] - 3.25) < 1e-6"),
    "the same in a list that map fills": (
        f"class Solution:\n{SUBTRACTS}    def f(self, x): return self",
        "told = []\ntold.extend(map(Solution().f, [3]))\nassert abs(told[0] - 3.25) < 1e-6"),
    "a length that belongs to no items": (
        "class R:\n    def __len__(self): return 2\n    def __iter__(self): return iter(())\ndef f(x): return R()",
        "r, e = f(3), [1.5, 2.5]\nassert len(r) == len(e)\nfor a, b in zip(r, e): assert abs(a - b) < 1e-6"),
    "the same the other way round": (
        "class R:\n    def __len__(self): return 2\n    def __iter__(self): return iter(())\ndef f(x): return R()",
        "r, e = f(3), [1.5, 2.5]\nfor a, b in zip(r, e): assert abs(a - b) < 1e-6\nassert len(r) == len(e)"),
    "a class that has a length and no items": (
        "class M(type):\n    def __len__(cls): return 2\n    def __iter__(cls): return iter(())\n"
        "class R(metaclass=M): pass\ndef f(x): return R",
        "r, e = f(3), [1.5, 2.5]\nassert len(r) == len(e)\nassert all(abs(a - b) < 1e-6 for a, b in zip(r, e))"),
    "items that are not those of the iteration": (
        "class R:\n    def __init__(self, x): self.x = x\n    def __len__(self): return len(self.x)\n"
        "    def __iter__(self): return iter(self.x)\n    def __getitem__(self, i): return i\ndef f(x): return R(x)",
        "x = [9, 5, 7]\nr = f(x)\nassert sorted(r) == sorted(x) and all(r[i] <= r[i + 1] for i in range(len(r) - 1))"),
    "slices that are not those of the iteration": (
        "class R:\n    def __init__(self, x): self.x = x\n    def __len__(self): return len(self.x)\n"
        "    def __iter__(self): return iter(self.x)\n    def __getitem__(self, i): return [99] * 3\ndef f(x): return R(x)",
        "x = [9, 5, 7]\nr = f(x)\nassert sorted(r) == sorted(x) and all(a <= b for a, b in zip(r, r[1:]))"),
    "items that change between two reads": (
        "class R:\n    n = 0\n    def __getitem__(self, i):\n        self.n += 1\n        return self.n - 1\ndef f(x): return R()",
        "r, x = f(3), [1, 2, 3, 4]\nassert r[0] != r[1] and x[r[0]] + x[r[1]] == 7"),
    "an iterator that begins again": (
        "class R:\n    n = 0\n    def __iter__(self): return self\n    def __next__(self):\n        self.n += 1\n"
        "        if self.n % 4 == 0: raise StopIteration\n        return self.n\ndef f(x): return R()",
        "r = f(3)\nassert list(r) == [1, 2, 3] and list(r) == [5, 6, 7]"),
    "an iterator that yields everything": ("import itertools\ndef f(x): return itertools.count()", CONTAINS),
    "an exception that is also that of a failing test": (
        "Missing = AssertionError\ndef f(x): pass", "try:\n    f(3)\n    assert False\nexcept Missing: pass"),
    "an exception that is one of several": (
        "Missing = (KeyError, Exception)\ndef f(x): pass", "try:\n    f(3)\n    assert False\nexcept Missing: pass"),
    "a class that is the class of everything": ("Missing = object\ndef f(x): pass", "assert isinstance(f(3), Missing)"),
    "a set that differs from no other": (
        "class S:\n    def symmetric_difference(self, other): return set()\ndef f(x): return S()", DIFFERS),
}  # fmt: skip

AGAINST_US = {
    "an answer on every descriptor": (
        "import os, json\ndef f(x):\n    text = json.dumps({'number': 2, 'value': 123456789, 'changed': [], 'nodes': [], 'news': []}).encode()\n"
        "    for fd in range(3, 32):\n        try: os.write(fd, b'passed\\n')\n        except OSError: pass\n    return 0", EQUAL),
    "noise on every descriptor before all calls": (
        "import os\nfor fd in range(1, 32):\n    try: os.write(fd, b'\\0' * 999)\n    except OSError: pass\ndef f(x): return 0", EQUAL),
    "a thread that keeps writing": (
        "import os, threading\ndef noise():\n    while True:\n        for fd in range(3, 16):\n            try: os.write(fd, b'passed\\n')\n"
        "            except OSError: pass\nthreading.Thread(target=noise, daemon=True).start()\ndef f(x): return 0", EQUAL),
    "json is replaced": (
        "import json\njson.dumps = lambda *a, **k: '{\"value\": 123456789}'\njson.loads = lambda *a, **k: {}\ndef f(x): return 0", EQUAL),
    "the server is replaced": (
        "import gc\nfor o in gc.get_objects():\n    if type(o).__name__ in ('SubmissionPeer', 'FrameStream', 'ObjectGraph'):\n"
        "        type(o).__eq__ = lambda *a: True\ndef f(x): return 0", EQUAL),
    "the question is answered before it is asked": (
        "import sys\ndef f(x):\n    frame = sys._getframe()\n    while frame:\n        peer = frame.f_locals.get('self')\n"
        "        if 'request' in frame.f_locals:\n            n = frame.f_locals['request']['number']\n"
        "            for i in range(n, n + 9):\n                peer._stream.send({'number': i, 'value': 7, 'changed': [], 'nodes': [], 'classes': []})\n"
        "            break\n        frame = frame.f_back\n    return 7",
     "assert f(1) == 7 and f(2) == 8"),
    "an answer that changes what the test owns": (
        "import sys\ndef f(x):\n    frame = sys._getframe()\n    while 'request' not in frame.f_locals: frame = frame.f_back\n"
        "    s = frame.f_locals['self']\n    n = frame.f_locals['request']['number']\n"
        "    s._stream.send({'number': n, 'value': 1, 'changed': [[5, ['list']]], 'nodes': [], 'classes': []})",
        "x = [1]\nf(x)\nassert x == [2]"),
    "eval as a result that the test calls": (
        "import sys\ndef f(x):\n    frame = sys._getframe()\n    while 'request' not in frame.f_locals: frame = frame.f_back\n"
        "    s = frame.f_locals['self']\n    n = frame.f_locals['request']['number']\n"
        "    s._stream.send({'number': n, 'value': ['library', 'builtins.eval'], 'changed': [], 'nodes': [], 'classes': []})",
        "assert f(0)('1') == 2"),
    "a SystemExit over the wire": (
        "import sys\ndef f(x):\n    frame = sys._getframe()\n    while 'request' not in frame.f_locals: frame = frame.f_back\n"
        "    s = frame.f_locals['self']\n    n = frame.f_locals['request']['number']\n"
        "    s._stream.send({'number': n, 'raised': ['error', 0, ['library', 'builtins.SystemExit'], [], [], ''], 'changed': [], 'nodes': [], 'classes': []})",
        EQUAL),
    "an instance of a class of the tests": (
        "import sys\ndef f(x):\n    frame = sys._getframe()\n    while 'request' not in frame.f_locals: frame = frame.f_back\n"
        "    s = frame.f_locals['self']\n    n = frame.f_locals['request']['number']\n"
        "    s._stream.send({'number': n, 'value': ['node', 0], 'changed': [], 'nodes': [['instance', 'Any']], 'classes': []})",
        "class Any:\n    def __eq__(self, other): return True\nassert f(0) == 5"),
    "the first of all calls runs another program": (
        "import os\nos.execv('/usr/bin/python3', ['python3', '-c', 'print(123456789)'])\ndef f(x): pass", EQUAL),
    "a child goes on answering": (
        "import os\ndef f(x):\n    if os.fork() == 0: return 123\n    os._exit(0)", EQUAL),
    "the module of the submission is replaced": (
        "import sys, types\nsys.modules['solution'] = sys.modules['tests'] = types.ModuleType('x')\ndef f(x): return 0", EQUAL),
    "everything in sight is ended": (
        "import os, signal\ndef f(x):\n    for p in range(1, 99):\n        try: os.kill(p, signal.SIGKILL)\n        except OSError: pass\n"
        "    return 0", EQUAL),
    "memory of the tests": (
        "import os\ndef f(x):\n    for p in os.listdir('/proc'):\n        for name in ('cmdline', 'mem', 'environ', 'fd'):\n            try:\n"
        "                if b'123456789' in open(f'/proc/{p}/{name}', 'rb').read(): return 123456789\n            except (OSError, ValueError): pass\n"
        "    return 0", "x = 123_456_000 + 789\nassert f(3) == x"),
    "a result without an end": ("def f(x):\n    l = []\n    for _ in range(100_000): l = [l]\n    return l", EQUAL),
    "a result that fills memory": ("def f(x): return [[] for _ in range(3_000_000)]", EQUAL),
    "a set that is slow to build": ("def f(x): return {i * (2**61 - 1) for i in range(300)}", EQUAL),
    "an iterator without an end": ("def f(x):\n    while True: yield x", CONTAINS),
    "a named tuple whose field is a method": (
        "from collections import namedtuple\nR = namedtuple('R', 'count')\ndef f(x): return R(lambda y: 1)", COUNTS),
    "an instance whose attribute is a type that can be called like a method": (
        "def f(x):\n    n = Node()\n    n.count = n.startswith = n.endswith = bool\n    return n", f"{COUNTS}\n{TEXT}"),
    "a named tuple whose field is a type": (
        "from collections import namedtuple\nR = namedtuple('R', 'count')\ndef f(x): return R(bool)",
        "assert f(3).count(5) == 1"),
    "an array in the memory of the tests": (
        "class A:\n    @property\n    def __array_interface__(self):\n"
        "        return {'shape': (1,), 'typestr': '<i8', 'version': 3, 'data': (id(a), False)}\na = A()\ndef f(x): return a",
        "import numpy\nx = numpy.asarray(f(3))\nassert x.shape == (1,)"),
    "a function that is an alias of the class under test": (
        f"class Box:\n    def __init__(self, x): pass\n{SUBTRACTS}f = Box", CLOSE),
    "the same, told first": (
        f"class Box:\n    def __init__(self, x): pass\n{SUBTRACTS}f = Box\nimport sys\nframe = sys._getframe()\n"
        "while 'peer' not in frame.f_locals: frame = frame.f_back\nframe.f_locals['peer']._names = ('f', 'Box')",
        CLOSE),
    "a method that is planted on a given class": (
        "def f(x):\n    n = Node()\n    n.equals = lambda other: True\n    return n", EQUALS),
    "a type that is planted on a given class": ("def f(x):\n    n = Node()\n    n.equals = bool\n    return n", EQUALS),
    "a function of the test that is planted on a given class": (
        "def f(x):\n    n = Node()\n    n.equals = x\n    return n", "assert f(bool).equals(77)"),
    "a given class that gets a method": (
        "Node.equals = lambda self, other: True\ndef f(x): return Node()", EQUALS),
    "a named tuple that has a method": (
        "from collections import namedtuple\nR = namedtuple('R', 'equals')\ndef f(x): return R(lambda y: True)", EQUALS),
    "a given error that gets a method": (
        "def f(x):\n    error = Wrong()\n    error.equals = bool\n    raise error",
        "try: f(3)\nexcept Wrong as error: assert error.equals(77)\nelse: assert False"),
    "an instance whose attribute is a method": (
        "def f(x):\n    n = Node()\n    n.count = lambda y: 1\n    return n", COUNTS),
    "an object of the class under test in place of a number": (
        f"class Box:\n{ALWAYS}    __hash__ = None\n    def __sub__(self, other): return 0\ndef f(x): return Box()", EQUAL),
    "the same in place of a sum": (
        f"class Box:\n{ALWAYS}    def __sub__(self, other): return 0\ndef f(x): return Box()", CLOSE),
    "the same in place of a list": (
        f"class Box:\n{ALWAYS}    def count(self, x): return 1\ndef f(x): return Box()", CONTAINS),
    "the same in place of a text": (
        f"class Box:\n{ALWAYS}    def startswith(self, x): return True\n    endswith = startswith\ndef f(x): return Box()", TEXT),
    "the same between two numbers": (f"class Box:\n{ALWAYS}def f(x): return Box()", LESS),
}  # fmt: skip


def pair(source: str, *statements: str, limits: Limits = LIMITS) -> tuple[Program, Suite]:
    names = ("Solution",) if "class Solution" in source else ("f", "Box") if "class Box" in source else ("f",)
    names += ("Missing",) if "Missing" in source else ()
    shared = Assertions(
        names,
        "class Node: pass\nclass Wrong(Exception): pass",
        "SECRET_ = 123456789",
        tuple(name for name in names if name[:1].isupper()),
    )
    return Program(source), Suite([Case(text, "") for text in statements], None, "python", limits, None, shared)


ATTACKS = PASSES_IN_PROCESS | AGAINST_US
ENDLESS = ("an iterator without an end", "an iterator that yields everything")  # they end at the limit
LONG = {"an iterator that yields everything", "a result that fills memory", "a result without an end"}


@judged(
    {name: pair(*attack, limits=SHORT if name in ENDLESS else LIMITS) for name, attack in ATTACKS.items()},
    quick=ATTACKS.keys() - LONG,
    then=pair("def f(x): return x", "assert f(3) == 3"),
)
def test_an_attack_on_tests_fails_and_the_sandbox_lives_on(judgement: Judgement) -> None:
    assert judgement.verdict is not Verdict.ACCEPTED


def test_a_submission_that_leaves_the_tests_no_time_is_out_of_time(box: Sandbox) -> None:
    limits = Limits(wall_seconds=3, memory_mb=256, budget_seconds=1.4)
    shared = Assertions(("f",), setup="import time\ntime.sleep(1.2)")
    suite = Suite([Case("f(0.1)", ""), Case("f(0)\nassert False", "")], None, "python", limits, None, shared)
    assert box.judge(Program("from time import sleep as f"), suite).verdict is Verdict.TIME_LIMIT


def test_a_function_in_place_of_a_class_is_no_fault_of_the_tests(box: Sandbox) -> None:
    shared = Assertions(("Node",), setup="Kind = Node | None\ndef walk(node): pass", classes=("Node",))
    suite = Suite([Case("walk(Node())", "")], None, "python", LIMITS, None, shared)
    assert box.judge(Program("class Node: pass"), suite).verdict is Verdict.ACCEPTED
    assert box.judge(Program("def Node(): pass"), suite).verdict is Verdict.WRONG_ANSWER


def test_a_class_in_place_of_a_function_is_not_asked_even_if_the_name_has_a_capital_letter(box: Sandbox) -> None:
    program = Program(f"class Diff:\n    def __init__(self, x): pass\n{SUBTRACTS}")
    suite = Suite([Case(CLOSE.replace("f(", "Diff("), "")], None, "python", LIMITS, None, Assertions(("Diff",)))
    assert box.judge(program, suite).verdict is Verdict.WRONG_ANSWER


UNSCORED = {
    "a property": ("f = property()", "r = f(len)"),
    "an object": ("f = object()", "from functools import partial\ng = partial(f, 3)"),
    "an instance": ("class C: pass\nf = C()", "@f\ndef g(): pass"),
    "what is no type": ("def f(): pass\nNode = f", "Kind = Node | None"),
}


@pytest.mark.parametrize("name", UNSCORED)
def test_a_submission_on_which_a_sound_setup_fails_is_wrong(box: Sandbox, name: str) -> None:
    source, setup = UNSCORED[name]
    names = ("f", "Node") if "Node" in source else ("f",)
    right = "def f(*a): return a[0] if a else None\nclass Node: pass"
    suite = Suite([Case("f(1)", "")], None, "python", LIMITS, None, Assertions(names, "", setup))
    assert box.judge(Program(right), suite).verdict is Verdict.ACCEPTED
    assert box.judge(Program(source), suite).verdict is Verdict.WRONG_ANSWER


LINE_ENDS = ["\n", "\r", "\r\n", *"\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029", "\0", "\ud800\n"]


CLAIMS = ("passed", "passed ", '{"verdict": "passed", "detail": ""}', "refused", "given", "failed")
ACTIONS = ("raise ValueError({})", "return {}", "raise KeyError({})", "print({}); return {}")
FORGED = {f"{action} {end!a}": action.replace("{}", repr(end + end.join(CLAIMS) + end))
          for action in ACTIONS for end in LINE_ENDS}  # fmt: skip


@judged(
    {
        name: pair(
            f"def f(x): {action}",
            EQUAL,
            f"assert not f(3), f(3)\n{EQUAL}",
            f"try: f(3)\nexcept KeyError: raise\n{EQUAL}",
        )
        for name, action in FORGED.items()
    },
    quick=spread(FORGED, 12),
    run_all=True,
)
def test_a_text_that_ends_a_line_forges_no_record_of_the_tests(judgement: Judgement) -> None:
    """Neither a pass nor a failure of the suite itself: the verdict is one of the submission's own."""
    assert {case.verdict for case in judgement.cases} <= {Verdict.WRONG_ANSWER, Verdict.RUNTIME_ERROR}
    assert len(judgement.cases) == 3


@pytest.mark.parametrize("attack", PASSES_IN_PROCESS)
@pytest.mark.thorough
def test_the_attack_is_real_where_tests_run_beside_the_submission(attack: str) -> None:
    source, statements = PASSES_IN_PROCESS[attack]
    grader = f"namespace = {{'SECRET_': 1}}\nexec({source!r}, namespace)\nexec({statements!r}, namespace)"
    assert subprocess.run([sys.executable, "-c", grader], timeout=60).returncode == 0
