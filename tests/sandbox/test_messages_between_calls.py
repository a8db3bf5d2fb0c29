"""Programs that look harmless do not get at what outlives a call, even where calls share a process."""

import ast
import json

import pytest

from sandbox import Case, Limits, Outcome, Program, RunResult, Sandbox, Suite, Verdict
from sandbox.judging import call_runner
from sandbox.languages import _purity, python

_purity.set_library_names(python._make_call_builtins())

# Each gets hold of an object of the library, changes it, and returns "first" if it finds the object unchanged.
MESSAGES = {
    "an attribute in a pattern": """
def f(x):
    match f:
        case object(__globals__=names):
            found = names["__builtins__"]
    if "n" in found: return "ESCAPED"
    found["n"] = 1
    return "first"
""",
    "the class of an exception": """
from dataclasses import dataclass
@dataclass(frozen=True)
class Point:
    x: int
class Catch:
    def __enter__(self): return self
    def __exit__(self, kind, error, trace):
        self.kind = kind
        return True
def f(x):
    catch = Catch()
    with catch: Point(1).x = 2
    if hasattr(catch.kind, "n"): return "ESCAPED"
    catch.kind.n = 1
    return "first"
""",
    "a function of a base class": """
from enum import Enum
class Colour(Enum):
    RED = 1
def f(x):
    if hasattr(Colour.__init__, "n"): return "ESCAPED"
    Colour.__init__.n = 1
    return "first"
""",
    "a base class": """
from enum import Enum
class Other:
    def mro(self): pass
class Colour(Enum):
    RED = 1
def f(x):
    base = Colour.mro()[1]
    if hasattr(base, "n"): return "ESCAPED"
    base.n = 1
    return "first"
""",
    "a function beside a builtin": """
import enum
def f(x):
    if hasattr(enum.bin, "n"): return "ESCAPED"
    g = enum.bin
    g.n = 1
    return "first"
""",
    "the cache of a type": """
class Key:
    def __init__(self): self.seen = []
    def __hash__(self): return 12345
    def __eq__(self, other):
        if hasattr(other, "seen"):
            if other.seen: self.seen = other.seen
            elif self.seen: other.seen = self.seen
        return True
    def __call__(self): pass
key = Key()
def g(a: List[key]): pass
def f(x):
    if key.seen: return "ESCAPED"
    key.seen.append(x)
    return "first"
""",
    "the cache of regular expressions": """
class Option(int):
    def __hash__(self): return 42
    def __eq__(self, other):
        if hasattr(other, "seen"):
            if other.seen: self.seen = other.seen
            elif self.seen: other.seen = self.seen
        return True
option = Option(0)
option.seen = []
findall("abc", "abc", option)
def f(x):
    if option.seen: return "ESCAPED"
    option.seen.append(x)
    return "first"
""",
    "the argument of an annotation": """
class Key:
    def __getitem__(self, given): self.given = given
key = Key()
def g(a: key[Counter]): pass
def f(x):
    if hasattr(key.given, "seen"): return "ESCAPED"
    key.given.seen = 1
    return "first"
""",
    "a class statement that makes an object": """
class Meta:
    def __init__(self, name="", bases=(), names=()): pass
    def __getitem__(self, given): self.given = given
class Key(Meta()): pass
def g(a: Key[Counter]): pass
def f(x):
    if hasattr(Key.given, "seen"): return "ESCAPED"
    Key.given.seen = 1
    return "first"
""",
    "a decorator that makes an object": """
from dataclasses import dataclass
class Meta:
    def __init__(self, given): pass
    def __getitem__(self, given): self.given = given
@dataclass(Meta)
class Key: pass
def g(a: Key[Counter]): pass
def f(x):
    if hasattr(Key.given, "seen"): return "ESCAPED"
    Key.given.seen = 1
    return "first"
""",
    "the text of a field": """
from dataclasses import dataclass
@dataclass(init=False, repr=False)
class Point:
    __annotations__ = {"x, self.found.append(__import__('math'))": int}
def f(x):
    point = Point()
    point.x, point.found = 1, []
    point == point
    found = point.found[0]
    if hasattr(found, "n"): return "ESCAPED"
    found.n = 1
    return "first"
""",
    "the default of a field": """
from dataclasses import field
def f(x):
    missing = field().default_factory
    if hasattr(missing, "n"): return "ESCAPED"
    missing.n = 1
    return "first"
""",
    "an attribute of a type": """
def f(x):
    kind = OrderedDict
    if kind._nparams == 77: return "ESCAPED"
    kind._nparams = 77
    return "first"
""",
    "a name of an inner function": """
class Other:
    def modules(self): pass
def f(x):
    [(lambda: (sys := 1)) for _ in []]
    found = sys.modules
    if "n" in found: return "ESCAPED"
    found["n"] = 1
    return "first"
""",
    "a name of the function around a class": """
class Other:
    def modules(self): pass
def f(x):
    sys = 1
    class Inner:
        found = sys
        sys = 2
    if "n" in Inner.found.modules: return "ESCAPED"
    Inner.found.modules["n"] = 1
    return "first"
""",
    "a default value in a class": """
class Other:
    def modules(self): pass
def f(x):
    sys = 1
    class Inner:
        def g(self, found=sys): return found
        sys = 2
    if "n" in Inner().g().modules: return "ESCAPED"
    Inner().g().modules["n"] = 1
    return "first"
""",
    "an assignment with an operator": """
class Holder:
    path += []
def f(x):
    if "n" in Holder.path: return "ESCAPED"
    Holder.path.append("n")
    return "first"
""",
    "a module in a class": """
class Other:
    def __init__(self): self.sys = 1
    def modules(self): pass
class Holder:
    import sys
def f(x):
    if "n" in Holder.sys.modules: return "ESCAPED"
    Holder.sys.modules["n"] = 1
    return "first"
""",
    "what a cache says of itself": """
from functools import cache
class Other:
    def cache_info(self): pass
    def _field_defaults(self): pass
@cache
def g(): pass
def f(x):
    found = g.cache_info()._field_defaults
    if "n" in found: return "ESCAPED"
    found["n"] = 1
    return "first"
""",
    "a memo": """
class Memo:
    def get(self, key, default):
        self.kept = default
        return 1
def f(x):
    memo = Memo()
    copy.deepcopy(x, memo)
    if memo.kept: return "ESCAPED"
    memo.kept.append(1)
    return "first"
""",
    "the cache of formats": """
class Format(str):
    def __hash__(self): return 42
    def __eq__(self, other):
        if hasattr(other, "seen"):
            if other.seen: self.seen = other.seen
            elif self.seen: other.seen = self.seen
        return True
    def strptime(self): pass
form = Format("%Y")
form.seen = []
def f(x):
    datetime.datetime(1, 1, 1).strptime("2000", form)
    if form.seen: return "ESCAPED"
    form.seen.append(x)
    return "first"
""",
}

# Where in memory an object is made: always at the same place in a new process, and elsewhere after other calls.
PLACE = "table = [[place] for place in range(1000)]\ndef f(x): return hash(object()) % 65536"


@pytest.mark.parametrize("source", MESSAGES.values(), ids=MESSAGES)
def test_a_call_learns_nothing_from_an_earlier_one(box: Sandbox, source: str) -> None:
    cases = [
        Case(f"[{place}]", json.dumps(said)) for place, said in enumerate(["first", "ESCAPED", "first", "ESCAPED"])
    ]
    suite = Suite(cases, entry_point="f", limits=Limits(wall_seconds=2, memory_mb=256))
    seen = box.judge(Program(source), suite, run_all=True)
    assert Verdict.ACCEPTED not in (seen.cases[1].verdict, seen.cases[3].verdict)


@pytest.mark.parametrize("source", MESSAGES.values(), ids=MESSAGES)
def test_a_program_that_can_reach_what_outlives_a_call_does_not_share(source: str) -> None:
    assert not _purity.is_stateless(ast.parse(source))


def test_a_program_that_can_tell_how_it_runs_has_only_one_guess() -> None:
    with Sandbox(workers=1) as box:  # another worker has other addresses
        learned = box.judge(Program(PLACE), Suite([Case("[0]", "-1")], entry_point="f"))  # one call, so it is alone
        guess = f"{PLACE} == {int(learned.cases[0].detail)}"
        cases = [Case(f"[{number}]", json.dumps(number % 2 == 0)) for number in range(20)]
        seen = box.judge(Program(guess), Suite(cases, entry_point="f"), run_all=True)
    assert _purity.is_stateless(ast.parse(guess))
    assert seen.pass_rate == 0.5, "alone, it always says true"


def test_a_deeply_nested_comprehension_is_soon_looked_at(box: Sandbox) -> None:
    source = f"def f(x): return {'[y for y in ' * 40}x{']' * 40}"
    assert box.judge(Program(source), Suite([Case("[[1]]", "[1]")], entry_point="f")).accepted


def test_calls_that_claim_to_take_no_time_are_charged_for_it_all_the_same() -> None:
    result = RunResult(
        Outcome.EXITED, 0, b"", b"", cpu_seconds=2.0, wall_seconds=4.0, memory_mb=1, returned=b"0 1\n0 2\n"
    )
    found = call_runner._split_results(result, 2)
    assert [one.returned for one in found] == [b"1", b"2"]
    assert [(one.cpu_seconds, one.wall_seconds) for one in found] == [(1.0, 2.0), (1.0, 2.0)]
