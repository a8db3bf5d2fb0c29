"""Detect the languages of solutions, and select the solutions of a problem to execute, the cheapest first."""

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


def parse_solution(text: str, stated: str = "") -> Program:
    """Return the solution inside `text`, without its Markdown fence, and its language.

    The language is "python" (3), "python2", "cpp", "unknown" or another name from the source.

    stated  language that the source states. Only Python is checked, because many such solutions are in Python 2 or in
            another language
    """
    source, label = strip_code_fence(text)
    stated_language = (stated or label).strip().lower()
    if re.match(r"(?:gnu )?(?:c\+\+|g\+\+|cpp)", stated_language):
        return Program(source, "cpp")
    if re.match(r"py\w* ?2", stated_language):
        return Program(source, "python2")
    return Program(
        source, stated_language if stated_language and not stated_language.startswith("py") else guess_language(source)
    )


def strip_code_fence(text: str) -> tuple[str, str]:
    """Return the content and the label of a Markdown code fence, or the text itself and "" without a fence."""
    fence = _FENCE.search(text)
    return (fence[2], fence[1]) if fence else (text, "")


def guess_language(source: str) -> str:
    """Guess the language of a program. Python 3 with a syntax error is still "python"; the sandbox finds the error."""
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
        return "python"  # the program checks the Python version, so it may name builtins of Python 2
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


def select_candidates(problem: Problem, languages: Sequence[str]) -> list[Program]:
    """Return the problem's distinct solutions in the `languages` that its tests can run.

    Python, which needs no compiler, comes first, and then the shortest solution, usually the cheapest to run.
    """
    fitting = [name for name in languages if not problem.tests.needs_python or load(name).CALLABLE]
    distinct = dict.fromkeys(solution for solution in problem.solutions or () if solution.source.strip())
    return sorted(
        (solution for solution in distinct if solution.language in fitting),
        key=lambda solution: (solution.language != "python", len(solution.source), solution.source),
    )
