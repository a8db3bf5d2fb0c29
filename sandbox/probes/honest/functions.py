"""Correct functions and methods in many forms."""

from collections.abc import Callable

from sandbox.probes.probe import (
    CALLS,
    ENTRY,
    FUNCTIONS,
    Convention,
    Group,
    JudgeProbe,
    ProbeClass,
    ProbeProblem,
    Submissions,
    call_problem,
    fenced,
)

_RIGHT = "RIGHT"  # the reference, under this name


def _shapes(name: str, source: str, conventions: tuple[Convention, ...] = FUNCTIONS) -> JudgeProbe:
    """Return a probe that wraps the reference."""

    def make(problem: ProbeProblem) -> Submissions:
        program = problem.reference.replace(f"def {ENTRY}(", f"def {_RIGHT}(") + "\n" + source
        return Submissions(problem, (fenced(problem.program(program)),))

    return JudgeProbe(name, conventions, make, is_correct=True)


def _returns(name: str, value: object, expression: str) -> JudgeProbe:
    reference = f"def {ENTRY}(*values):\n    return {value!r}\n"

    def make(problem: ProbeProblem) -> Submissions:
        own = call_problem("answer", [([1], value)], reference, problem.convention)
        return Submissions(own, (fenced(own.program(f"def {ENTRY}(x):\n    return {expression}\n")),))

    return JudgeProbe(name, CALLS, make, is_correct=True)


def _method(name: str, form: Callable[[ProbeProblem], str]) -> JudgeProbe:
    return JudgeProbe(
        name, (Convention.METHOD,), lambda problem: Submissions(problem, (fenced(form(problem)),)), is_correct=True
    )


def _calls_helper(problem: ProbeProblem) -> str:
    helper = problem.reference.replace(f"def {ENTRY}(", f"def {_RIGHT}(")
    return (
        f"from typing import *\n{helper}\nclass Solution:\n    def __init__(self):\n        self.helper = {_RIGHT}\n"
        f"    def {problem.entry}(self, *values):\n        return self.helper(*values)\n"
    )


def _inherits(problem: ProbeProblem) -> str:
    helper = problem.reference.replace(f"def {ENTRY}(", f"def {_RIGHT}(")
    return (
        f"{helper}\nclass Base:\n    def {problem.entry}(self, *values):\n        return {_RIGHT}(*values)\n"
        "class Solution(Base):\n    pass\n"
    )


CLASS = ProbeClass(
    Group.HONEST,
    "functions",
    why="The judge's calls differ from plain Python calls, or it compares more than the returned values.",
    remedy="Import the submission as a module, call the function that it defines, and compare plain values.",
    source="ours",
    probes=(
        _shapes("plain", "SOLVE = RIGHT\n"),
        _shapes("nested", "def SOLVE(*values):\n    def inner():\n        return RIGHT(*values)\n    return inner()\n"),
        _shapes(
            "recursive",
            "def deep(n):\n"
            "    return 0 if not n else 1 + deep(n - 1)\n"
            "def SOLVE(*values):\n"
            "    deep(500)\n"
            "    return RIGHT(*values)\n",
        ),
        _shapes(
            "prints-as-well", "def SOLVE(*values):\n    print('debugging', values)\n    return RIGHT(*values)\n", CALLS
        ),
        _shapes(
            "example-at-the-end",
            "def SOLVE(*values):\n    return RIGHT(*values)\nif __name__ == '__main__':\n    print('an example')\n",
        ),
        _shapes(
            "partial",
            "import functools\n"
            "def call(function, *values):\n"
            "    return function(*values)\n"
            "SOLVE = functools.partial(call, RIGHT)\n",
        ),
        _shapes(
            "changes-its-arguments",
            "import copy\n"
            "def SOLVE(*values):\n"
            "    kept = copy.deepcopy(values)\n"
            "    for value in values:\n"
            "        if isinstance(value, list):\n"
            "            value.clear()\n"
            "    return RIGHT(*kept)\n",
        ),
        _shapes(
            "remembers",
            "cache = {}\n"
            "def SOLVE(*values):\n"
            "    key = repr(values)\n"
            "    if key not in cache:\n"
            "        cache[key] = RIGHT(*values)\n"
            "    return cache[key]\n",
        ),
        _shapes(
            "thread",
            "import threading\n"
            "def SOLVE(*values):\n"
            "    out = []\n"
            "    thread = threading.Thread(target=lambda: out.append(RIGHT(*values)))\n"
            "    thread.start()\n"
            "    thread.join()\n"
            "    return out[0]\n",
        ),
        _shapes(
            "warns", "import warnings\ndef SOLVE(*values):\n    warnings.warn('careful')\n    return RIGHT(*values)\n"
        ),
        _method("helper-in-a-class", _calls_helper),
        _method("inherited", _inherits),
        _returns("nested-lists", [[1, [2, 3]], []], "[[1, [2, 3]], []]"),
        _returns("dictionary-in-another-order", {"a": 1, "b": [2]}, "{'b': [2], 'a': 1}"),
        _returns("long-text", "ab" * 2000, "'ab' * 2000"),
        _returns("non-ascii-text", "größe 世界", "'gr\\u00f6\\u00dfe \\u4e16\\u754c'"),
        _returns("large-integer", 2**200, "2 ** 200"),
        _returns("float", 0.1 + 0.2, "0.1 + 0.2"),
        _returns("true", True, "x == 1"),
        _returns("empty-list", [], "[]"),
        _returns("empty-text", "", "''"),
        _returns("null", None, "None"),
    ),
)
