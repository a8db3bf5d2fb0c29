"""What language a solution is in, and which of a problem's solutions are worth executing, the cheapest first."""

import ast
import re
import warnings
from collections.abc import Sequence

from curate.problem import Problem
from sandbox import Program
from sandbox.languages import load

_FENCE = re.compile(r"```([^\n`]*)\n(.*?)(?:\n```|\Z)", re.DOTALL)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]", re.MULTILINE)
_OTHER_LANGUAGES = re.compile(
    r"^\s*#\s*include\b|^\s*using namespace\b|^\s*public (?:static|class)\b|^\s*(?:pub )?fn \w+\s*\("
    r"|^\s*use std::|^\s*package main\b|^\s*(?:const|let|var) \w+ =|\bfunction \w+\(.*\{|^\s*import java\.",
    re.MULTILINE,
)
_PYTHON2 = re.compile(r"^[^#\n]*(?:\bprint\s+[^(=\s]|\bexec\s+['\"]|\braw_input\(|\bxrange\(|<>)", re.MULTILINE)
_PYTHON2_NAMES = {"raw_input", "xrange", "unichr", "basestring", "execfile"}


def program(text: str, stated: str = "") -> Program:
    """The solution inside `text`, out of its Markdown fence, and its language: "python" (3), "python2", "cpp", or
    "unknown". `stated` is the source's own word for it. A stated third language is believed and kept in that word;
    a stated Python is looked at, because many are Python 2, and some are no Python at all."""
    source, label = unfence(text)
    words = (stated or label).strip().lower()
    if re.match(r"(?:gnu )?(?:c\+\+|g\+\+|cpp)", words):
        return Program(source, "cpp")
    if re.match(r"py\w* ?2", words):
        return Program(source, "python2")
    return Program(source, words if words and not words.startswith("py") else language(source))


def unfence(text: str) -> tuple[str, str]:
    """What is inside a Markdown code fence, and the fence's label; the text itself where there is no fence."""
    fence = _FENCE.search(text)
    return (fence[2], fence[1]) if fence else (text, "")


def language(source: str) -> str:
    """Python 3 that has a mistake in it is python all the same: the sandbox will say so."""
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        if _INCLUDE.search(source):
            return "cpp"
        if _OTHER_LANGUAGES.search(source):
            return "unknown"
        return "python2" if _PYTHON2.search(source) else "python"
    if re.search(r"\bversion|NameError|PY[23]\b", source):
        return "python"  # asks which Python it runs on, so it may name the other one's builtins
    used: set[str] = set()
    defined: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else defined).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.alias):
            defined.add(node.asname or node.name)
    return "python2" if (used - defined) & _PYTHON2_NAMES else "python"


def candidates(problem: Problem, languages: Sequence[str]) -> list[Program]:
    """The problem's distinct solutions in one of the `languages` that can be run on its tests. Python, which need not
    be compiled, comes first, and then the shortest: as a rule the cheapest to run."""
    fitting = [name for name in languages if problem.tests.entry_point is None or load(name).CALLABLE]
    distinct = dict.fromkeys(solution for solution in problem.solutions or () if solution.source.strip())
    return sorted(
        (solution for solution in distinct if solution.language in fitting),
        key=lambda solution: (solution.language != "python", len(solution.source), solution.source),
    )
