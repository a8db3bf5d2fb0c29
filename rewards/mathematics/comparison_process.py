"""The program of a process that compares mathematical answers, for answer_comparer.py.

It imports math-verify and warms it up, confines itself for good (see isolation.py), and only then reads what others
wrote. Each comparison runs in a fork, which may hang or exhaust its memory.

A request is one JSON line [expected, given], both LaTeX. The reply is up to three lines. The fork sends whether the
expected answer can be read as mathematics (`read` or `unreadable`), then `right` or `wrong`. This process sends `end`
and how the fork ended: its exit status, or minus the signal that killed it. Answers that cannot be read are compared as
text.

math-verify's own time limits are alarms in Python, which have to wait for C code to return, and a power of a power is
computed in C alone. Here the kernel counts CPU seconds and ends the fork, so a busy machine makes no answer wrong.

Three rules are ours, not math-verify's:

- Units, bases and other notation count (see notation.py).
- A percentage is a number: 2\\% is 0.02, not 2.
- An equation stands for its right side if its left side consists of names: x = 3, f(2) = 3, AB = 3, m + n = 3. With
  numbers on its left side, it does so only if both sides are equal: 1 + 2 = 3 stands for 3, but 4 = 3 and x + 1 = 3 do
  not. In the chain x = 2 = 3, the last equation is false, so the chain does not stand for 3. If the expected answer is
  an equation, equations are compared as such.
"""

import contextlib
import gc
import json
import logging
import os
import re
import resource
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from rewards.mathematics.notation import Notation

EXPECTED_ANSWER_CPU_SECONDS = 4.0  # for reading the expected answer, which a dataset brings
CPU_SECONDS = 0.5  # for the rest of a comparison; an ordinary one takes some hundredths of a second
MEMORY_MB = 2048
_NUMBER_PERCENT = re.compile(r"((?:\d{1,3}(?:,\d{3})++|\d++)(?:\.\d++)?+)\s*+\\?%")
_ONLY_PERCENT = re.compile(r"([^$%=,]*[^$%=,\s\\])\s*\\?%")

Reading = Any  # one way to read an answer: an expression of sympy, or text

# Comparing these once makes sympy import and cache what every fork needs.
_WARM_UP = (
    r"\frac{1}{2}",
    r"3\sqrt{2}",
    "x^3 + 3x - 6",
    "(1, 2)",
    r"\{1, 2\}",
    "y = 2x",
    r"-\frac{\pi}{6}",
    "0.5",
    r"2\text{ cm}",
    "[0,1)",
    "-2 + 7i",
    r"\cot x",
    "e^x",
    r"\ln 2",
    r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}",
    "x > 2",
    r"90^\circ",
    r"2\%",
    r"\text{even}",
    r"\left[ \frac{\pi^2}{8}, 5 \right]",
)


@dataclass(frozen=True)
class _Answer:
    notation: "Notation"
    readings: list[Reading]


def main() -> None:
    sys.path += json.loads(sys.argv[1])  # after the standard library: a user's math.py must not replace the module math
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the process that asks
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    logging.disable()
    replies = os.dup(1)
    os.dup2(2, 1)  # what libraries print must not be taken for a reply

    import math_verify

    from rewards.mathematics.isolation import confine

    _warm_up()
    packages = {os.path.dirname(os.path.dirname(os.path.realpath(math_verify.__file__))), *_folders(sys.path)}
    os.closerange(replies + 1, 64)
    missing = confine(packages, MEMORY_MB)
    gc.freeze()
    _send(replies, " ".join(["ready", *missing]))
    for line in sys.stdin.buffer:
        child = os.fork()
        if child == 0:
            _compare(line, replies)
        _, status = os.waitpid(child, 0)
        if "processes" not in missing:
            _kill_all_others()
        _send(replies, f"end {os.waitstatus_to_exitcode(status)}")


def _warm_up() -> None:
    for expected, given in zip(_WARM_UP, [*_WARM_UP[1:], "4"], strict=True):
        _is_right(_read(expected), _read(given))
        _is_right(_read(expected), _read("4"))


def _folders(paths: list[str]) -> set[str]:
    return {path for path in paths if path.endswith(("site-packages", "dist-packages"))}


def _kill_all_others() -> None:
    """Kill what a comparison has left behind. This process is the first of its namespace and may kill all others."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def _send(replies: int, line: str) -> None:
    os.write(replies, line.encode() + b"\n")


def _compare(line: bytes, replies: int) -> NoReturn:
    os.close(0)  # the following requests are not for this fork
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    max_seconds = int(EXPECTED_ANSWER_CPU_SECONDS + CPU_SECONDS) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (max_seconds, max_seconds))
    signal.setitimer(signal.ITIMER_PROF, EXPECTED_ANSWER_CPU_SECONDS)
    expected, given = json.loads(line)
    expected_answer = _read(expected)
    unreadable = all(isinstance(reading, str) for reading in expected_answer.readings)
    _send(replies, "unreadable" if unreadable else "read")
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        right = _is_right(expected_answer, _read(given))
    except Exception:  # whatever the given answer does to the parser, it is not the expected one
        right = False
    _send(replies, "right" if right else "wrong")
    os._exit(0)


def _read(latex: str) -> _Answer:
    from rewards.mathematics.notation import parse_notation

    notation = parse_notation(latex)
    return _Answer(notation, _readings(notation.latex))


def _is_right(expected: _Answer, given: _Answer) -> bool:
    from rewards.mathematics.notation import notations_match

    return notations_match(expected.notation, given.notation) and _are_equal(expected.readings, given.readings)


def _readings(latex: str) -> list[Reading]:
    """Return the ways in which math-verify reads an answer."""
    from math_verify import parse
    from math_verify.parser import LatexExtractionConfig

    only_percent = _ONLY_PERCENT.fullmatch(latex)
    if only_percent is None:
        latex = _NUMBER_PERCENT.sub(lambda number: rf"\frac{{{number[1].replace(',', '')}}}{{100}}", latex)
    # math-verify takes a percent sign into account if it follows the delimiters of mathematics.
    text = rf"${only_percent[1]}$\%" if only_percent else rf"\boxed{{{latex}}}"
    # Only LaTeX: plain expressions would go through Python's eval.
    readings = list(parse(text, [LatexExtractionConfig()], parsing_timeout=None))
    if only_percent is None:
        return readings
    # math-verify also returns the text, without the sign, and would compare the product with 1/100 with and without it.
    numbers = [reading.doit() for reading in readings if getattr(reading, "is_Mul", False)]
    return numbers or [latex.replace("\\%", "%")]


def _are_equal(expected: list[Reading], given: list[Reading]) -> bool:
    from math_verify import verify

    if not verify(expected, given, timeout_seconds=None):
        return False
    if any(_equations(reading) or getattr(reading, "is_Relational", False) for reading in expected):
        return True
    return all(_stands_for_its_right_side(chain) for reading in given for chain in _equations(reading))


def _equations(reading: Reading) -> list[list[Reading]]:
    """Return the equations in a reading; the equations of a chain are together in one list."""
    if isinstance(reading, str):
        return []
    if _is_equation(reading):
        return [[reading]]
    parts: list[Reading] = list(getattr(reading, "_unsorted_args", getattr(reading, "args", ())))
    if type(reading).__name__ == "And" and all(_is_equation(part) for part in parts):
        return [parts]
    return [chain for part in parts for chain in _equations(part)]


def _is_equation(reading: Reading) -> bool:
    return type(reading).__name__ == "Equality"


def _stands_for_its_right_side(chain: list[Reading]) -> bool:
    from math_verify import verify

    first, *others = chain
    doubtful = [equation for equation in others if not equation.free_symbols]
    if not _consists_of_names(first.lhs):
        doubtful.append(first)
    return all(verify([equation.rhs], [equation.lhs], timeout_seconds=None) for equation in doubtful)


def _consists_of_names(side: Reading) -> bool:
    """Return whether a side consists of names, and of no numbers other than exponents and signs."""
    if getattr(side, "is_Symbol", False) or str(side) == "E":  # sympy takes the letter e for the number
        return True
    if getattr(side, "is_Function", False):
        return bool(side.free_symbols) or type(type(side)).__name__ == "UndefinedFunction"  # f(2)
    if getattr(side, "is_Pow", False):
        return _consists_of_names(side.base)
    parts = getattr(side, "args", ())
    if getattr(side, "is_Mul", False):
        parts = [part for part in parts if part != -1]
    return bool(parts) and all(_consists_of_names(part) for part in parts)


if __name__ == "__main__":
    main()
