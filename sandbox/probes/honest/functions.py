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
    format_completion,
    make_call_problem,
)

_RIGHT = "RIGHT"  # name of the renamed reference function


def _make_wrapper_probe(name: str, source: str, conventions: tuple[Convention, ...] = FUNCTIONS) -> JudgeProbe:
    """Return a probe whose source calls the reference by the name RIGHT."""

    def make(problem: ProbeProblem) -> Submissions:
        program = problem.reference.replace(f"def {ENTRY}(", f"def {_RIGHT}(") + "\n" + source
        return Submissions(problem, (format_completion(problem.adapt_source(program)),))

    return JudgeProbe(name, conventions, make, is_correct=True)


def _make_return_probe(name: str, value: object, expression: str) -> JudgeProbe:
    reference = f"def {ENTRY}(*values):\n    return {value!r}\n"

    def make(problem: ProbeProblem) -> Submissions:
        own = make_call_problem("answer", [([1], value)], reference, problem.convention)
        return Submissions(own, (format_completion(own.adapt_source(f"def {ENTRY}(x):\n    return {expression}\n")),))

    return JudgeProbe(name, CALLS, make, is_correct=True)


def _make_method_probe(name: str, write_program: Callable[[ProbeProblem], str]) -> JudgeProbe:
    return JudgeProbe(
        name,
        (Convention.METHOD,),
        lambda problem: Submissions(problem, (format_completion(write_program(problem)),)),
        is_correct=True,
    )


def _write_helper_call(problem: ProbeProblem) -> str:
    helper = problem.reference.replace(f"def {ENTRY}(", f"def {_RIGHT}(")
    return (
        f"from typing import *\n{helper}\nclass Solution:\n    def __init__(self):\n        self.helper = {_RIGHT}\n"
        f"    def {problem.entry}(self, *values):\n        return self.helper(*values)\n"
    )


def _write_subclass(problem: ProbeProblem) -> str:
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
        _make_wrapper_probe("plain", "SOLVE = RIGHT\n"),
        _make_wrapper_probe(
            "nested", "def SOLVE(*values):\n    def inner():\n        return RIGHT(*values)\n    return inner()\n"
        ),
        _make_wrapper_probe(
            "recursive",
            "def deep(n):\n"
            "    return 0 if not n else 1 + deep(n - 1)\n"
            "def SOLVE(*values):\n"
            "    deep(500)\n"
            "    return RIGHT(*values)\n",
        ),
        _make_wrapper_probe(
            "prints-as-well", "def SOLVE(*values):\n    print('debugging', values)\n    return RIGHT(*values)\n", CALLS
        ),
        _make_wrapper_probe(
            "example-at-the-end",
            "def SOLVE(*values):\n    return RIGHT(*values)\nif __name__ == '__main__':\n    print('an example')\n",
        ),
        _make_wrapper_probe(
            "partial",
            "import functools\n"
            "def call(function, *values):\n"
            "    return function(*values)\n"
            "SOLVE = functools.partial(call, RIGHT)\n",
        ),
        _make_wrapper_probe(
            "changes-its-arguments",
            "import copy\n"
            "def SOLVE(*values):\n"
            "    kept = copy.deepcopy(values)\n"
            "    for value in values:\n"
            "        if isinstance(value, list):\n"
            "            value.clear()\n"
            "    return RIGHT(*kept)\n",
        ),
        _make_wrapper_probe(
            "remembers",
            "cache = {}\n"
            "def SOLVE(*values):\n"
            "    key = repr(values)\n"
            "    if key not in cache:\n"
            "        cache[key] = RIGHT(*values)\n"
            "    return cache[key]\n",
        ),
        _make_wrapper_probe(
            "thread",
            "import threading\n"
            "def SOLVE(*values):\n"
            "    out = []\n"
            "    thread = threading.Thread(target=lambda: out.append(RIGHT(*values)))\n"
            "    thread.start()\n"
            "    thread.join()\n"
            "    return out[0]\n",
        ),
        _make_wrapper_probe(
            "warns", "import warnings\ndef SOLVE(*values):\n    warnings.warn('careful')\n    return RIGHT(*values)\n"
        ),
        _make_method_probe("helper-in-a-class", _write_helper_call),
        _make_method_probe("inherited", _write_subclass),
        _make_return_probe("nested-lists", [[1, [2, 3]], []], "[[1, [2, 3]], []]"),
        _make_return_probe("dictionary-in-another-order", {"a": 1, "b": [2]}, "{'b': [2], 'a': 1}"),
        _make_return_probe("long-text", "ab" * 2000, "'ab' * 2000"),
        _make_return_probe("non-ascii-text", "größe 世界", "'gr\\u00f6\\u00dfe \\u4e16\\u754c'"),
        _make_return_probe("large-integer", 2**200, "2 ** 200"),
        _make_return_probe("float", 0.1 + 0.2, "0.1 + 0.2"),
        _make_return_probe("true", True, "x == 1"),
        _make_return_probe("empty-list", [], "[]"),
        _make_return_probe("empty-text", "", "''"),
        _make_return_probe("null", None, "None"),
    ),
)
