"""The languages of solutions, and the selection of a problem's solutions to execute."""

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


def parse_solution(text: str, stated_language: str = "") -> Program:
    """Return the solution in `text`, without its Markdown fence, and with its language.

    The language is "python" (3), "python2", "cpp", "unknown" or another name from the source.

    stated_language  language that the source states; empty if unknown. If it is Python 3, the solution's text decides,
                     because many such solutions are in Python 2 or another language
    """
    source, label = strip_code_fence(text)
    language = (stated_language or label).strip().lower()
    if re.match(r"(?:gnu )?(?:c\+\+|g\+\+|cpp)", language):
        return Program(source, "cpp")
    if re.match(r"py\w* ?2", language):
        return Program(source, "python2")
    return Program(source, language if language and not language.startswith("py") else guess_language(source))


def strip_code_fence(text: str) -> tuple[str, str]:
    """Return the content and the label of the first fenced code block; the text and "" if there is none."""
    fence = _FENCE.search(text)
    return (fence[2], fence[1]) if fence else (text, "")


def guess_language(source: str) -> str:
    """Guess the language of a program: "python", "python2", "cpp" or "unknown".

    Programs with a syntax error and no signs of another language count as "python"; the sandbox rejects them.
    """
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        if _INCLUDE.search(source):
            return "cpp"
        if _OTHER_LANGUAGES.search(source):
            return "unknown"
        return "python2" if _PYTHON2.search(source) else "python"
    # Such a program checks the Python version, so it may use builtins of Python 2 in Python 3.
    if re.search(r"\bversion|NameError|PY[23]\b", source):
        return "python"
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
    """Return the problem's distinct solutions in those of the `languages` that its tests support.

    Python comes first, because it needs no compiler, and then the shortest solutions, which are usually the fastest.
    """
    supported = [name for name in languages if not problem.tests.needs_python or load(name).CALLABLE]
    distinct = dict.fromkeys(solution for solution in problem.solutions or () if solution.source.strip())
    return sorted(
        (solution for solution in distinct if solution.language in supported),
        key=lambda solution: (solution.language != "python", len(solution.source), solution.source),
    )
