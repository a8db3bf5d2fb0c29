"""Which of a problem's solutions are worth executing: Python 3, distinct, the cheapest first."""

import ast
import re
import warnings

from curate.problem import Problem

_FENCE = re.compile(r"```[^\n`]*\n(.*?)(?:\n```|\Z)", re.DOTALL)
_OTHER_LANGUAGES = re.compile(
    r"^\s*#\s*include\b|^\s*using namespace\b|^\s*public (?:static|class)\b|^\s*(?:pub )?fn \w+\s*\("
    r"|^\s*use std::|^\s*package main\b|^\s*(?:const|let|var) \w+ =|\bfunction \w+\(.*\{|^\s*import java\.",
    re.MULTILINE,
)
_PYTHON2 = re.compile(r"^[^#\n]*(?:\bprint\s+[^(=\s]|\bexec\s+['\"]|\braw_input\(|\bxrange\(|<>)", re.MULTILINE)
_PYTHON2_NAMES = {"raw_input", "xrange", "unichr", "basestring", "execfile"}


def unfence(text: str) -> str:
    """The program inside a Markdown code fence, or the text itself where there is none."""
    fenced = _FENCE.search(text)
    return fenced[1] if fenced else text


def is_python3(source: str) -> bool:
    """Is it meant as Python 3? A program that is, but has a mistake in it, is: the sandbox will say so."""
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return not (_OTHER_LANGUAGES.search(source) or _PYTHON2.search(source))
    if re.search(r"\bversion|NameError|PY[23]\b", source):
        return True  # asks which Python it runs on, so it may name the other one's builtins
    used: set[str] = set()
    defined: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else defined).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.alias):
            defined.add(node.asname or node.name)
    return not (used - defined) & _PYTHON2_NAMES


def candidates(problem: Problem) -> list[str]:
    """The problem's distinct Python 3 solutions, shortest first: as a rule the cheapest to run."""
    stated = problem.language.lower()
    if problem.solutions is None or not (stated == "" or stated.startswith("py")):
        return []
    distinct = dict.fromkeys(solution for solution in problem.solutions if solution.strip())
    return sorted((solution for solution in distinct if is_python3(solution)), key=lambda s: (len(s), s))
