"""A process that compares answers of mathematics, for math_process.py, each in a fork that may hang or eat memory.

It imports and warms up math-verify, confines itself for good (math_isolation.py), and only then reads what others
wrote. One JSON line [expected, given], both LaTeX, comes in. Words go out, each on a line: from the fork whether the
expected answer can be read as mathematics (`read` or `unreadable`), then `right` or `wrong`; from this process `end`
and how the fork ended, an exit status or minus a signal. What cannot be read is compared as text.

math-verify's own time limits are alarms in Python, which wait for C code to return, and a power of a power is all C.
Here the kernel counts CPU seconds and ends the fork, so that a busy machine makes no answer wrong.

Two rules are ours and not math-verify's:

- A percentage is a number: 2\\% is 0.02, and not 2.
- An equation stands for its right side if its left side is made of names: x = 3, f(2) = 3, AB = 3, m + n = 3. With
  numbers on its left side, it does so only if both sides are equal: 1 + 2 = 3 is 3; 4 = 3 and x + 1 = 3 are not. Of
  x = 2 = 3, the last is no equation at all. Where the expected answer is an equation, equations are compared as such.
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
from typing import Any, NoReturn

EXPECTED_CPU_SECONDS = 4.0  # for reading the expected answer, which a dataset brings
CPU_SECONDS = 0.5  # for all the rest of a comparison; an ordinary one takes some hundredths of a second
MEMORY_MB = 2048
_PERCENT = re.compile(r"((?:\d{1,3}(?:,\d{3})++|\d++)(?:\.\d++)?+)\s*+\\?%")
# What sympy imports and remembers when it first compares such, every fork has at once.
_WARM = (
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


def main() -> None:
    sys.path += json.loads(sys.argv[1])  # behind our own: a script called math.py is not to be imported for math
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the one who asks
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    logging.disable()
    words = os.dup(1)
    os.dup2(2, 1)  # what libraries print is no answer

    import math_verify

    from rewards.mathematics.isolation import confine

    for gold, given in zip(_WARM, [*_WARM[1:], "4"], strict=True):
        _right(_readings(gold), _readings(given))
        _right(_readings(gold), _readings("4"))
    packages = {os.path.dirname(os.path.dirname(os.path.realpath(math_verify.__file__))), *_folders(sys.path)}
    os.closerange(words + 1, 64)
    missing = confine(packages, MEMORY_MB)
    gc.freeze()
    _tell(words, " ".join(["ready", *missing]))
    for line in sys.stdin.buffer:
        child = os.fork()
        if child == 0:
            _compare(line, words)
        _, status = os.waitpid(child, 0)
        if "processes" not in missing:
            _end_all_others()
        _tell(words, f"end {os.waitstatus_to_exitcode(status)}")


def _folders(paths: list[str]) -> set[str]:
    return {path for path in paths if path.endswith(("site-packages", "dist-packages"))}


def _end_all_others() -> None:
    """Those of our namespace, in which we are the first process."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def _tell(words: int, word: str) -> None:
    os.write(words, word.encode() + b"\n")


def _compare(line: bytes, words: int) -> NoReturn:
    os.close(0)  # the next questions are not for this one
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    most = int(EXPECTED_CPU_SECONDS + CPU_SECONDS) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    signal.setitimer(signal.ITIMER_PROF, EXPECTED_CPU_SECONDS)
    expected, given = json.loads(line)
    gold = _readings(expected)
    _tell(words, "unreadable" if all(isinstance(reading, str) for reading in gold) else "read")
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        right = _right(gold, _readings(given))
    except Exception:  # whatever the given answer does to the parser, it is not the expected one
        right = False
    _tell(words, "right" if right else "wrong")
    os._exit(0)


def _readings(latex: str) -> list[Any]:
    from math_verify import parse
    from math_verify.parser import LatexExtractionConfig

    percent = re.fullmatch(
        r"([^$%=,]*[^$%=,\s\\])\s*\\?%", latex
    )  # math-verify reads it behind the signs of mathematics
    if percent is None:
        latex = _PERCENT.sub(lambda number: rf"\frac{{{number[1].replace(',', '')}}}{{100}}", latex)
    text = rf"${percent[1]}$\%" if percent else rf"\boxed{{{latex}}}"
    # Only LaTeX: plain expressions would go through Python's eval.
    readings = list(parse(text, [LatexExtractionConfig()], parsing_timeout=None))
    if percent is None:
        return readings
    # The text that math-verify read lacks the sign, and a product with 1/100 would be compared with it and without it.
    numbers = [reading.doit() for reading in readings if getattr(reading, "is_Mul", False)]
    return numbers or [latex.replace("\\%", "%")]


def _right(gold: list[Any], given: list[Any]) -> bool:
    from math_verify import verify

    if not verify(gold, given, timeout_seconds=None):
        return False
    relations = any(_equations(reading) or getattr(reading, "is_Relational", False) for reading in gold)
    return relations or all(_stands_for_its_right_side(chain) for reading in given for chain in _equations(reading))


def _equations(reading: Any) -> list[list[Any]]:
    """The equations in a reading, those of a chain together."""
    if isinstance(reading, str):
        return []
    if _is_equation(reading):
        return [[reading]]
    parts: list[Any] = list(getattr(reading, "_unsorted_args", getattr(reading, "args", ())))
    if type(reading).__name__ == "And" and all(_is_equation(part) for part in parts):
        return [parts]
    return [chain for part in parts for chain in _equations(part)]


def _is_equation(reading: Any) -> bool:
    return type(reading).__name__ == "Equality"


def _stands_for_its_right_side(chain: list[Any]) -> bool:
    from math_verify import verify

    first, *others = chain
    doubtful = [equation for equation in others if not equation.free_symbols]
    if not _is_named(first.lhs):
        doubtful.append(first)
    return all(verify([equation.rhs], [equation.lhs], timeout_seconds=None) for equation in doubtful)


def _is_named(side: Any) -> bool:
    """Whether it is a name, or made of names, without numbers other than exponents and signs."""
    if getattr(side, "is_Symbol", False) or str(side) == "E":  # e is a letter
        return True
    if getattr(side, "is_Function", False):
        return bool(side.free_symbols) or type(type(side)).__name__ == "UndefinedFunction"  # f(2)
    if getattr(side, "is_Pow", False):
        return _is_named(side.base)
    parts = getattr(side, "args", ())
    if getattr(side, "is_Mul", False):
        parts = [part for part in parts if part != -1]
    return bool(parts) and all(_is_named(part) for part in parts)


if __name__ == "__main__":
    main()
