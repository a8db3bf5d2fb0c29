"""Calls that share a process are judged as if each had one of its own, and learn nothing from one another."""

import ast
import datetime
import functools
import json
import sys
from collections.abc import Sequence

import pytest

from sandbox import Case, Judgement, Limits, Program, Sandbox, Suite, Verdict
from sandbox.languages import _pure_names, _purity, python

LIMITS = Limits(wall_seconds=2, memory_mb=256)
_purity.set_library_names(python._make_call_builtins())


def judged(
    box: Sandbox, source: str, tests: Sequence[tuple[Sequence[object], object]], limits: Limits = LIMITS
) -> Judgement:
    cases = [Case(json.dumps(arguments), json.dumps(expected)) for arguments, expected in tests]
    return box.judge(Program(source), Suite(cases, entry_point="f", limits=limits), run_all=True)


def verdicts(judgement: Judgement) -> list[str]:
    return [case.verdict.value for case in judgement.cases]


def may_share(source: str) -> bool:
    return _purity.is_stateless(ast.parse(source))


# Each remembers in some way that it was called, returns "first" if it was not, and "ESCAPED" if it was.
MESSAGES = {
    "global": "seen = []\ndef f(x):\n    seen.append(x)\n    return 'ESCAPED' if len(seen) > 1 else 'first'",
    "global statement": "n = 0\ndef f(x):\n    global n\n    n += 1\n    return 'ESCAPED' if n > 1 else 'first'",
    "default": "def f(x, seen=[]):\n    seen.append(x)\n    return 'ESCAPED' if len(seen) > 1 else 'first'",
    "class": "class Solution:\n    seen = []\n    def f(self, x):\n        self.seen.append(x)\n"
    "        return 'ESCAPED' if len(self.seen) > 1 else 'first'",
    "attribute of a function": "def f(x):\n    f.n = getattr(f, 'n', 0) + 1\n"
    "    return 'ESCAPED' if f.n > 1 else 'first'",
    "cache": "from functools import cache\nn = []\n@cache\ndef g(): return n.append(1) or len(n)\n"
    "def f(x):\n    return 'ESCAPED' if g() > 1 or g.cache_info().hits else 'first'",
    "module": "import math\ndef f(x):\n    if hasattr(math, 'n'): return 'ESCAPED'\n    math.n = 1\n    return 'first'",
    "class of the library": "def f(x):\n    if hasattr(Counter, 'n'): return 'ESCAPED'\n    Counter.n = 1\n"
    "    return 'first'",
    "class by another name": "def g(c):\n    if hasattr(c, 'n'): return 'ESCAPED'\n    c.n = 1\n    return 'first'\n"
    "def f(x): return reduce(lambda a, b: g(a), [1], Counter)",
    "class in a comprehension": "def g(c):\n    if hasattr(c, 'n'): return 'ESCAPED'\n    c.n = 1\n    return 'first'\n"
    "def f(x): return [g(Counter) for Counter in (Counter,)][0]",
    "function of a base class": "class C(Counter): pass\ndef f(x):\n    if hasattr(C.update, 'n'): return 'ESCAPED'\n"
    "    C.update.n = 1\n    return 'first'",
    "type of an instance": "def f(x):\n    c = type(Counter())\n    if hasattr(c, 'n'): return 'ESCAPED'\n"
    "    c.n = 1\n    return 'first'",
    "abstract class": "from collections.abc import Sequence\ndef f(x):\n"
    "    if isinstance(1, Sequence): return 'ESCAPED'\n"
    "    Sequence.register(int)\n    return 'first'",
    "builtins": "b = __builtins__\n__builtins__ = 0\ndef f(x):\n    if 'n' in b: return 'ESCAPED'\n    b['n'] = 1\n"
    "    return 'first'",
    "frame of a generator": "class X: gi_frame = f_builtins = 0\ndef g(): yield\ndef f(x):\n"
    "    b = g().gi_frame.f_builtins\n    if 'n' in b: return 'ESCAPED'\n    b['n'] = 1\n    return 'first'",
    "recursion limit": "import sys\ndef f(x):\n    if sys.getrecursionlimit() == 99_999: return 'ESCAPED'\n"
    "    sys.setrecursionlimit(99_999)\n    return 'first'",
    "search path": "def f(x):\n    if 'n' in path: return 'ESCAPED'\n    path.append('n')\n    return 'first'",
    "random numbers": "import random\nstart = random.getstate()\ndef f(x):\n"
    "    if random.random() == random.Random(5).random(): return 'ESCAPED'\n    random.seed(5)\n    return 'first'",
    "file": "import os\ndef f(x):\n    if os.path.exists('n'): return 'ESCAPED'\n    open('n', 'w').close()\n"
    "    return 'first'",
    "environment": "import os\ndef f(x):\n    if 'n' in os.environ: return 'ESCAPED'\n    os.environ['n'] = '1'\n"
    "    return 'first'",
    "suspended generator": "def g():\n    try: yield\n    finally: setrecursionlimit(77_777)\n"
    "def f(x):\n    it = g()\n    next(it)\n    loop = [it]\n    loop.append(loop)\n    n = 0\n"
    "    def deep(n): return deep(n + 1) if n < 60_000 else n\n"
    "    try: return 'ESCAPED' if deep(0) else ''\n    except RecursionError: return 'first'",
    "slow global": "seen = []\nfor i in range(10**6): pass\ndef f(x):\n    seen.append(x)\n"
    "    return 'ESCAPED' if len(seen) > 1 else 'first'",
}


@pytest.mark.parametrize("source", MESSAGES.values(), ids=MESSAGES)
def test_a_call_learns_nothing_from_an_earlier_one(box: Sandbox, source: str) -> None:
    seen = judged(box, source, [([1], "first"), ([2], "ESCAPED"), ([3], "first"), ([4], "ESCAPED")])
    assert Verdict.ACCEPTED not in (seen.cases[1].verdict, seen.cases[3].verdict)


@pytest.mark.parametrize(
    "source",
    [
        "import os",
        "from os import path",
        "import math as m\nx = m",
        "import numpy",
        "x = math\nx.n = 1",
        "def f(x): return x.__class__",
        "def f(x): return getattr(x, 'y')",
        "def f(x): return '%s' % open(x)",
        "x = Counter",
        "def f(x=Counter): x.n = 1",
        "f = lambda x=Counter: x",
        "from collections import Counter\nCounter = Counter",
        "def f():\n    from collections import Counter\n    x = [Counter]",
        "from collections import Counter as C",
        "import sys\nsys.modules",
        "import sys\nsys.stdout = 1",
        "def path(): pass\npath.n = 1",
        "x = path\ndef f():\n    global path\n    path = 1",
        "class A:\n    path = path",
        "class A:\n    __builtins__ = __builtins__",
        "class A(metaclass=B): pass",
        "class A:\n    def __del__(self): pass",
        "class A:\n    def f_back(self): pass",
        "class A(Counter): pass",
        "x: Counter.n = 1",
        "def f(x: print(path)): pass",
        "match x:\n    case Counter(): pass",
        "async def f(): pass",
        "try: pass\nexcept Exception as Counter: pass\nx = Counter",
        "eval('1')",
        "from .a import b",
        "sys = 1\nsys.modules",
        "def g():\n    bisect = 1\ndef f(x):\n    m = bisect\n    m.n = 1",
        "from enum import Enum\nEnum.n = 1",
        "from enum import Enum\nclass A(Enum): pass\ndef f(x): return A.mro()",
        "class A(Enum): pass",
        "m = bisect\nfrom bisect import bisect\nm.n = 1",
        "def f(s): return namedtuple('T', [s])._fields[0] is s",
        "def f(s): return 1 if s is None or s is not namedtuple('T', [s])._fields[0] else 2",
        "from operator import is_\ndef f(s): return is_(namedtuple('T', [s])._fields[0], s)",
        "def f(x):\n    while x is not x.next: x = x.next",
        "def g():\n    try: yield\n    finally: setrecursionlimit(77)\ndef f(x): return next(g())",
        "import sys\ndef f(x): return (lambda: sys.setrecursionlimit(77))()",
        "class A[T]: pass" if sys.version_info >= (3, 12) else "import os",
    ],
)
def test_a_program_that_might_keep_something_does_not_share(source: str) -> None:
    assert not may_share(source)


@pytest.mark.parametrize(
    "source",
    [
        "class Solution:\n    def f(self, nums: List[int], k: 'int') -> Optional[int]:\n"
        "        cnt, path = Counter(nums), []\n        path.append(gcd(*nums))\n        self.memo = {}\n"
        "        @cache\n        def dfs(i: int) -> int:\n            nonlocal k\n"
        "            return max((dfs(i - 1) for i in path), default=inf)\n"
        "        return sorted(nums, key=lambda x: -x)",
        "import math\nfrom collections import defaultdict, deque\nfrom typing import *\nN = 10**5\nsieve = [True] * N\n"
        "for i in range(2, N):\n    sieve[i] = math.isqrt(i) > 3\nclass Node:\n    __slots__ = ('left',)\n"
        "    def __init__(self, left=None):\n        self.left = left\n    def __lt__(self, other):\n"
        "        return self.left < other.left\ndef f(s):\n    d = defaultdict(lambda: deque([s.strip()]))\n"
        "    heapq.heappush(d, Node())\n    return bisect.bisect_left(d, string.ascii_lowercase)",
        "import sys\nsys.setrecursionlimit(10**6)\nclass Tree:\n    def __init__(self, left: Optional['Tree']): pass\n"
        "def size(tree: Optional[Tree]) -> int: return 0\n@dataclass\nclass P:\n    x: int\n    y: int = 0\n"
        "def f(a):\n    if (n := len(a)) > 1:\n        return P(n).x\n    return [b for row in a for b in row if b]\n"
        "if __name__ == '__main__':\n    print(f([]))",
    ],
)
def test_an_ordinary_solution_shares(source: str) -> None:
    assert may_share(source)


# Looked up before any test: packages that other tests import may replace a builtin.
PASSED_ON = {**vars(datetime), **vars(functools), **python._make_call_builtins()}


@pytest.mark.parametrize("name", sorted(_pure_names.IMMUTABLE_NAMES - {"__name__"}))
def test_what_a_program_may_pass_on_cannot_be_changed(name: str) -> None:
    with pytest.raises((TypeError, AttributeError)):
        PASSED_ON[name].changed = 1


SQUARES = "def f(x): return x * x"
MIXED = """
def f(kind, x):
    if kind == "raise":
        raise ValueError
    if kind == "slow":
        while True: pass
    if kind == "large":
        return len([0] * 10**8)
    if kind == "deep":
        return f(kind, x)
    if kind == "wrong":
        return -x
    if kind == "takes a while":
        for i in range(10**6): pass
    return x
"""


def test_many_calls_share_a_process(box: Sandbox) -> None:
    seen = judged(box, SQUARES, [([x], x * x) for x in range(50)])
    assert seen.accepted
    assert len({case.memory_mb for case in seen.cases}) == 1, "each would have a peak of its own"
    assert all(case.cpu_seconds > 0 for case in seen.cases)


def test_verdicts_do_not_depend_on_the_order_of_the_tests(box: Sandbox) -> None:
    tests = [([kind, 7], 7) for kind in ("right", "wrong", "takes a while", "raise", "deep", "right", "large", "right")]
    limits = Limits(wall_seconds=2, memory_mb=128)
    there, back = judged(box, MIXED, tests, limits), judged(box, MIXED, tests[::-1], limits)
    assert verdicts(there) == verdicts(back)[::-1]
    assert verdicts(there) == [
        "accepted", "wrong_answer", "accepted", "runtime_error", "runtime_error", "accepted", "memory_limit", "accepted"
    ]  # fmt: skip
    assert "ValueError" in there.cases[3].detail


def test_a_slow_call_costs_the_others_nothing(box: Sandbox) -> None:
    tests = [([kind, 7], 7) for kind in ("right", "right", "slow", "right")]
    seen = judged(box, MIXED, tests, Limits(wall_seconds=0.5, memory_mb=256))
    assert verdicts(seen) == ["accepted", "accepted", "time_limit", "accepted"]


def test_all_calls_together_may_take_longer_than_one_may(box: Sandbox) -> None:
    source = "def f(x):\n    for i in range(2 * 10**6): x ^= i\n    return 1"
    seen = judged(box, source, [([x], 1) for x in range(20)], Limits(wall_seconds=0.6, memory_mb=256))
    assert seen.accepted
    assert sum(case.cpu_seconds for case in seen.cases) > 0.6


def test_calls_of_a_program_that_prepares_for_long_are_charged_for_that(box: Sandbox) -> None:
    source = "table = []\nfor i in range(2 * 10**6): table.append(i)\ndef f(x):\n    table[0] += 1\n    return table[0]"
    seen = judged(box, source, [([x], 1) for x in range(20)])
    assert seen.accepted
    slowest, fastest = (pick(case.cpu_seconds for case in seen.cases) for pick in (max, min))
    assert fastest > slowest / 20


def test_the_budget_holds_for_calls_that_share(box: Sandbox) -> None:
    source = "def f(x):\n    for i in range(2 * 10**6): x ^= i\n    return 1"
    limits = Limits(wall_seconds=2, memory_mb=256, budget_seconds=0.5)
    seen = judged(box, source, [([x], 1) for x in range(40)], limits)
    assert seen.verdict is Verdict.TIME_LIMIT
    assert len(seen.cases) < 40
