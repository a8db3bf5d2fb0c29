"""Thirteen kinds of small tasks over a number n, two numbers a and b or a list xs, with constants from 2 to 9.

Each task has a right program and systematic mistakes: a missing tail, swapped branches, a forgotten order.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

READING = {
    "n": "n = int(input())",
    "a b": "a, b = map(int, input().split())",
    "xs": "xs = list(map(int, input().split()))",
}
CONSTANTS = range(2, 10)
_SIGNS = {"plus": "+", "minus": "-", "times": "*"}
_OPPOSITE = {"plus": "-", "minus": "+", "times": "+", "+": "-", "-": "+", "*": "+", ">": "<", "<": ">"}


@dataclass(frozen=True, slots=True)
class Task:
    """A task. `name` has kind, operation and constants; `right` and `wrong` lack the line that reads the input."""

    name: str
    reads: str  # "n", "a b" or "xs"
    constants: tuple[int, ...]
    ask: str
    right: str
    wrong: tuple[str, ...]

    def make_program(self, body: str) -> str:
        return f"{READING[self.reads]}\n{body}"


Maker = Callable[..., tuple[str, str, tuple[str, ...]]]  # ask, right, wrong


def generate_tasks() -> Iterator[Task]:
    """Yield all tasks, kind by kind."""
    for maker, reads, words, n_constants in _KINDS:
        for chosen in itertools.product(*words):
            for constants in itertools.product(CONSTANTS, repeat=n_constants):
                ask, right, wrong = maker(*chosen, *constants)
                parts = [
                    maker.__name__.removeprefix("_make_"),
                    *(word.split()[0] for word in chosen),
                    *map(str, constants),
                ]
                wrong = tuple(body for body in dict.fromkeys(wrong) if body != right)
                yield Task("-".join(parts), reads, constants, ask, right, wrong)


def _make_tail(op: str, c: int, d: int):
    s = _SIGNS[op]
    wrong = (f"n * {c}", f"n {s} {d}", f"n * {c} {_OPPOSITE[op]} {d}", f"n * {d} {s} {c}")
    return f"Print n times {c} {op} {d}.", f"print(n * {c} {s} {d})", _print_each(wrong)


def _make_branch(than: str, op: str, c: int, d: int, e: int):
    s, q = _SIGNS[op], _COMPARED[than]
    ask = f"If n is {than} {c}, print n times {d}, otherwise print n {op} {e}."
    wrong = (
        f"n {s} {e} if n {q} {c} else n * {d}",
        f"n * {d} if n {_OPPOSITE[q]} {c} else n {s} {e}",
        f"n * {d} if n {q} {c} else n",
        f"n * {d}",
    )
    return ask, f"print(n * {d} if n {q} {c} else n {s} {e})", _print_each(wrong)


def _make_remainder(op: str, c: int, d: int):
    s = _SIGNS[op]
    ask = f"Print the remainder of n divided by {c}, {op} {d}."
    wrong = (f"n % {c}", f"n // {c} {s} {d}", f"n % {d} {s} {c}", f"n % {c} {_OPPOSITE[s]} {d}")
    return ask, f"print(n % {c} {s} {d})", _print_each(wrong)


def _make_divisible(op: str, c: int, d: int, e: int):
    s = _SIGNS[op]
    ask = f"If n is divisible by {c}, print n {op} {d}, otherwise print n times {e}."
    wrong = (
        f"n * {e} if n % {c} == 0 else n {s} {d}",
        f"n {s} {d} if n % {c} == 1 else n * {e}",
        f"n {s} {d} if n % {c} == 0 else n",
        f"n {s} {d} if n > {c} else n * {e}",
    )
    return ask, f"print(n {s} {d} if n % {c} == 0 else n * {e})", _print_each(wrong)


def _make_weighted(op: str, c: int, d: int):
    s = _SIGNS[op]
    wrong = (f"a * {c}", f"a * {c} {s} b", f"a * {d} {s} b * {c}", f"a * {c} {_OPPOSITE[s]} b * {d}")
    return f"Print {c} times a {op} {d} times b.", f"print(a * {c} {s} b * {d})", _print_each(wrong)


def _make_extreme(which: str, op: str, c: int, d: int):
    s, name, other = _SIGNS[op], *(("max", "min") if which == "larger" else ("min", "max"))
    ask = f"Print the {which} of a and b, times {c} {op} {d}."
    wrong = (f"{name}(a, b) * {c}", f"{other}(a, b) * {c} {s} {d}", f"{name}(a, b) {s} {d}", f"a * {c} {s} {d}")
    return ask, f"print({name}(a, b) * {c} {s} {d})", _print_each(wrong)


def _make_apart(than: str, op: str, c: int, d: int, e: int):
    s, q = _SIGNS[op], _COMPARED[than]
    ask = f"If a is {than} b plus {c}, print a times {d}, otherwise print b {op} {e}."
    wrong = (
        f"b {s} {e} if a {q} b + {c} else a * {d}",
        f"a * {d} if a {q} b else b {s} {e}",
        f"a * {d} if a {q} b + {c} else b",
        f"a * {d} if a {_OPPOSITE[q]} b + {c} else b {s} {e}",
    )
    return ask, f"print(a * {d} if a {q} b + {c} else b {s} {e})", _print_each(wrong)


def _make_statistic(which: str, op: str, c: int):
    s, name = _SIGNS[op], _STATISTICS[which]
    other = {"sum": "len", "len": "sum", "max": "min", "min": "max"}[name]
    wrong = (f"{name}(xs)", f"{other}(xs) {s} {c}", f"{name}(xs) {_OPPOSITE[s]} {c}", f"xs[0] {s} {c}")
    return f"Print the {which} of xs {op} {c}.", f"print({name}(xs) {s} {c})", _print_each(wrong)


def _make_mapped(order: str, op: str, c: int, d: int):
    s, xs = _SIGNS[op], _ORDERS[order]
    ask = f"Print each element of xs times {c} {op} {d}, in {order} order."
    wrong = (f"x * {c} for x in {xs}", f"x * {c} {s} {d} for x in sorted(xs)", f"x {s} {d} for x in {xs}",
             f"x * {c} {_OPPOSITE[s]} {d} for x in {xs}")  # fmt: skip
    return ask, f"print(*[x * {c} {s} {d} for x in {xs}])", _print_lists(wrong)


def _make_ordered(order: str, op: str, c: int):
    s, xs = _SIGNS[op], _ORDERS[order]
    ask = f"Print the elements of xs in {order} order, each {op} {c}."
    wrong = (f"x for x in {xs}", f"x {s} {c} for x in xs", f"x {_OPPOSITE[s]} {c} for x in {xs}",
             f"x {s} {c} for x in {_ORDERS['reversed']}")  # fmt: skip
    return ask, f"print(*[x {s} {c} for x in {xs}])", _print_lists(wrong)


def _make_filtered(order: str, which: str, c: int):
    xs, test, other = _ORDERS[order], *_make_conditions(which, c)
    ask = f"Print the elements of xs that are {which} {c}, in {order} order."
    wrong = (f"x for x in {xs} if {other}", f"x for x in {xs}", f"x - {c} for x in {xs} if {test}",
             f"x for x in {_ORDERS['ascending' if order != 'ascending' else 'given']} if {test}")  # fmt: skip
    return ask, f"print(*[x for x in {xs} if {test}])", _print_lists(wrong)


def _make_total(which: str, op: str, c: int, d: int):
    s, (test, other) = _SIGNS[op], _make_conditions(which, c)
    ask = f"Print the sum of the elements of xs that are {which} {c}, {op} {d}."
    wrong = (f"sum(x for x in xs if {test})", f"sum(x for x in xs if {other}) {s} {d}", f"sum(xs) {s} {d}",
             f"sum(1 for x in xs if {test}) {s} {d}")  # fmt: skip
    return ask, f"print(sum(x for x in xs if {test}) {s} {d})", _print_each(wrong)


def _make_count(which: str, op: str, c: int, d: int):
    s, (test, other) = _SIGNS[op], _make_conditions(which, c)
    ask = f"Print how many elements of xs are {which} {c}, {op} {d}."
    wrong = (f"sum(1 for x in xs if {test})", f"sum(1 for x in xs if {other}) {s} {d}", f"len(xs) {s} {d}",
             f"sum(x for x in xs if {test}) {s} {d}")  # fmt: skip
    return ask, f"print(sum(1 for x in xs if {test}) {s} {d})", _print_each(wrong)


def _print_each(expressions: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"print({expression})" for expression in expressions)


def _print_lists(elements: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"print(*[{element}])" for element in elements)


def _make_conditions(which: str, c: int) -> tuple[str, str]:
    """Return the Python condition for the words `which` and the number `c`, and a similar wrong condition."""
    if which == "divisible by":
        return f"x % {c} == 0", f"x % {c} == 1"
    return f"x {_COMPARED[which]} {c}", f"x {_OPPOSITE[_COMPARED[which]]} {c}"


_COMPARED = {"greater than": ">", "less than": "<"}
_STATISTICS = {"sum": "sum", "maximum": "max", "minimum": "min", "length": "len"}
_ORDERS = {"given": "xs", "reversed": "xs[::-1]", "ascending": "sorted(xs)", "descending": "sorted(xs)[::-1]"}
_SIGN, _ANY = ("plus", "minus"), ("plus", "minus", "times")
_THAN, _WHICH = tuple(_COMPARED), ("greater than", "less than", "divisible by")
_KINDS: tuple[tuple[Maker, str, tuple[tuple[str, ...], ...], int], ...] = (  # words to choose from; number of constants
    (_make_tail, "n", (_SIGN,), 2),
    (_make_branch, "n", (_THAN, _SIGN), 3),
    (_make_remainder, "n", (("plus", "times"),), 2),
    (_make_divisible, "n", (_SIGN,), 3),
    (_make_weighted, "a b", (_SIGN,), 2),
    (_make_extreme, "a b", (("larger", "smaller"), _SIGN), 2),
    (_make_apart, "a b", (_THAN, _SIGN), 3),
    (_make_statistic, "xs", (tuple(_STATISTICS), _ANY), 1),
    (_make_mapped, "xs", (("given", "reversed"), _SIGN), 2),
    (_make_ordered, "xs", (("ascending", "descending"), _ANY), 1),
    (_make_filtered, "xs", (("given", "reversed", "ascending"), _WHICH), 1),
    (_make_total, "xs", (_WHICH, _ANY), 2),
    (_make_count, "xs", (_WHICH, _ANY), 2),
)
