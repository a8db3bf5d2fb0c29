"""EvalPlus's extraction rule, reimplemented from evalplus 0.3.1 (evalplus/evalplus: evalplus/sanitize.py,
evalplus/syncheck.py; Apache-2.0).

1. Among all runs of two or more lines that parse as Python, take the run with the most nonblank lines, or the
first of several. Without such a run, take the first line.
2. Of this run, keep the imports, then the top-level functions, classes and assignments used by the entry point. A
statement uses every name in it. The first definition of a name counts.
3. If nothing is left, keep the whole run.

Like EvalPlus's tree-sitter types, step 2 excludes decorated functions and classes, imports from __future__, functions
without `return`, and blocks such as `if` and `try`. The name of an assignment is the first plain name
among target and value: `a, b = c` has the name c.

EvalPlus parses each pair of lines. Here, a parse error bounds the run, and MAX_CHARS bounds the time for a hostile
completion.
"""

import ast
import io
import re
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

MAX_CHARS = 1 << 22  # characters parsed for one completion: 3 to 12 seconds
_PARSE_CHARS = 100  # fixed cost of a parse, in characters
_FAILURE_SHARE = 16  # speedup of the parser after an error
_GROWTH_FACTOR = 8  # growth of the number of lines from one parse to the next
_MAX_LINE_CHARS = 10_000  # maximum length of a line searched for a parsable end
_WORD = re.compile(r"\b[^\W\d]")
_UNPARSABLE = re.compile("[\0\ud800-\udfff]")
_NO_CODE = re.compile(r"[ \t\f]*+(?:#[^\r]*+)?+\r?+")
_INDENTED = re.compile(r"(?:[ \t]*+\f)*+[ \t]")
_LONE_RETURN = re.compile(r"\r(?!\n)")
_TRY = re.compile(r"[ \t\f]*+try[ \t]*+:")
_OPEN = ("was never closed", "unterminated triple-quoted")  # errors that later lines may fix
_filters = threading.Lock()  # warning filters are global to the process

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def sanitize(completion: str, entry_points: Sequence[str]) -> str:
    """Extract the program from a completion, not necessarily valid Python.

    entry_points: functions that the tests call; empty: keep every function, class and assignment
    """
    with _filters, warnings.catch_warnings(action="ignore"):  # invalid escapes in a completion's strings
        run = find_longest_run(completion)
        source, tree = _parse_end(run)
    lines = [line.encode() for line in io.StringIO(source, newline="")]
    kept = _select_imports(tree) + _select_reachable(_collect_definitions(tree), entry_points)
    return "\n".join(_extract_source(lines, node) for node in kept).strip() or run


def _parse_end(run: str) -> tuple[str, ast.Module]:
    """Return a run with its tree; for a line that does not parse, its parsable end, as tree-sitter parses it."""
    begins = [0] if len(run) > _MAX_LINE_CHARS else [0, *(word.start() for word in _WORD.finditer(run))]
    for begin in begins:
        parsed = _parse(run[begin:])
        if isinstance(parsed, ast.Module):
            return run[begin:], parsed
    return "", ast.Module([], [])


def _parse(source: str) -> ast.Module | Exception:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return error


def _select_imports(tree: ast.Module) -> list[ast.stmt]:
    return [
        node
        for node in tree.body
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and node.module != "__future__")
    ]


def _collect_definitions(tree: ast.Module) -> dict[str | None, ast.stmt]:
    """Return the top-level definitions by name, in order; the key None is an assignment without a name."""
    found: dict[str | None, ast.stmt] = {}
    for node in tree.body:
        if isinstance(node, _Definition):
            is_kept = isinstance(node, ast.ClassDef) or any(isinstance(part, ast.Return) for part in ast.walk(node))
            if is_kept and not node.decorator_list:
                found.setdefault(node.name, node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            found.setdefault(_find_assigned_name(node), node)
    return found


def _find_assigned_name(node: ast.Assign | ast.AnnAssign) -> str | None:
    """Return the first plain name among target and value; in a chained assignment, only the first target counts."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    parts = [targets[0], *([node.value] if len(targets) == 1 else [])]
    return next((part.id for part in parts if isinstance(part, ast.Name)), None)


def _select_reachable(definitions: dict[str | None, ast.stmt], entry_points: Sequence[str]) -> list[ast.stmt]:
    if not entry_points:
        return list(definitions.values())
    waiting: list[str] = list(entry_points)
    reached = set(waiting)
    while waiting:
        node = definitions.get(waiting.pop())
        names = set() if node is None else _collect_names(node) - reached
        reached |= names
        waiting.extend(names)
    return [node for name, node in definitions.items() if name in reached]


def _collect_names(node: ast.stmt) -> set[str]:
    """Return every name in a statement: of variables, attributes, parameters, keywords and modules."""
    texts: list[str] = []
    for part in ast.walk(node):
        if not isinstance(part, ast.Constant):
            for _, value in ast.iter_fields(part):
                texts += [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str)]
    return {name for text in texts for name in text.split(".")}


def _extract_source(lines: list[bytes], node: ast.stmt) -> str:
    """Return the text of a statement. Its columns count bytes."""
    last_line, end = node.end_lineno or 0, node.end_col_offset  # never None in parsed nodes
    before = b"".join(lines[node.lineno - 1 : last_line - 1])
    return (before + lines[last_line - 1][:end])[node.col_offset :].decode()


def find_longest_run(text: str) -> str:
    """Return the longest run of lines that parses as Python, or the first line if no two lines do."""
    lines = _UNPARSABLE.sub("\ufffd", text).split("\n")
    runs = _Runs(lines)
    begin = end = most = 0
    for first in range(len(lines)):
        if runs.count_filled(first, len(lines) - 1) <= most or runs.left < 0:
            break
        last = runs.find_last_line(first, most)
        n_filled = runs.count_filled(first, last)
        if n_filled > most and last > first:
            begin, end, most = first, runs.trim_blank_end(first, last), n_filled
    return "\n".join(lines[begin : end + 1])


@dataclass(frozen=True, slots=True)
class _Failure:
    """A parse error: the number of its line, and the parser's message."""

    line: int
    message: str


class _Runs:
    """The runs of lines that parse, by first line."""

    def __init__(self, lines: list[str]) -> None:
        self.left = MAX_CHARS
        self._lines = lines
        self._n_filled = list(accumulate((bool(line.strip()) for line in lines), initial=0))
        self._offsets = list(accumulate((len(line) + 1 for line in lines), initial=0))
        self._next_code = [len(lines)] * (len(lines) + 1)  # next line of code, neither blank nor a comment
        for number in range(len(lines) - 1, -1, -1):
            is_code = _NO_CODE.fullmatch(lines[number]) is None
            self._next_code[number] = number if is_code else self._next_code[number + 1]
        # For the parser, a lone carriage return ends a line, so its line numbers differ from ours.
        self._has_numbers = not any(_LONE_RETURN.search(line, 0, len(line) - 1) for line in lines)
        self._last: dict[int, int] = {}  # last line of the longest run, by first line of code

    def count_filled(self, first: int, last: int) -> int:
        return self._n_filled[last + 1] - self._n_filled[first]

    def find_last_line(self, first: int, most: int) -> int:
        """Return the last line of the longest run from `first`; the line before it if there is none.

        most: number of nonblank lines to exceed; for other runs, the result is a lower bound
        """
        begin = self._next_code[first]
        if begin == len(self._lines):
            return begin - 1
        if begin not in self._last:
            self._last[begin] = self._find_last(begin, most - self.count_filled(first, begin - 1))
        return self._last[begin]

    def trim_blank_end(self, first: int, last: int) -> int:
        """Return the last line of a run, without unneeded blank lines at its end."""
        end = last
        while end > first + 1 and self.count_filled(end, last) == 0:
            end -= 1
        if self._lines[end].rstrip("\r").endswith("\\"):  # a continuation: the next line belongs to this one
            ends = (number for number in range(end, last) if isinstance(self._parse(first, number), ast.Module))
            end = next(ends, last)
        return end

    def _find_last(self, begin: int, most: int) -> int:
        if _INDENTED.match(self._lines[begin]):
            return begin - 1
        last, n_tried = len(self._lines) - 1, 2
        while last >= begin and self.left >= 0 and self.count_filled(begin, last) > most:
            tried = min(last, begin + n_tried - 1)
            parsed = self._parse(begin, tried)
            if isinstance(parsed, ast.Module):
                if tried == last:
                    self._record_statements(parsed, begin, last)
                    return last
                n_tried *= _GROWTH_FACTOR
            elif tried < last and self._may_continue(parsed, tried):
                n_tried *= _GROWTH_FACTOR
            else:
                last = self._find_last_candidate(parsed, tried)
        return begin - 1

    def _may_continue(self, failure: _Failure, tried: int) -> bool:
        """Return whether more lines may complete lines that do not parse."""
        is_at_end = self._next_code[min(failure.line, tried) + 1] > tried
        return is_at_end or any(text in failure.message for text in _OPEN)

    def _find_last_candidate(self, failure: _Failure, tried: int) -> int:
        """Return the last possible line of a run after the parse up to `tried` failed."""
        line = min(failure.line, tried)
        if failure.message.startswith("expected 'except'"):
            # The last `try` before this line lacks its clause, or is inside a `try` that lacks it.
            line = next((number for number in range(line, -1, -1) if _TRY.match(self._lines[number])), line)
        return line - 1

    def _parse(self, first: int, last: int) -> ast.Module | _Failure:
        source = "\n".join(self._lines[first : last + 1])
        parsed = _parse(source)
        self.left -= _PARSE_CHARS
        if isinstance(parsed, ast.Module):
            self.left -= len(source)
            return parsed
        failure = _Failure(last, "")
        if isinstance(parsed, SyntaxError) and self._has_numbers and parsed.lineno:
            failure = _Failure(first + parsed.lineno - 1, parsed.msg)
        self.left -= self._offsets[min(failure.line, last) + 1] - self._offsets[first] + len(source) // _FAILURE_SHARE
        return failure

    def _record_statements(self, tree: ast.Module, begin: int, last: int) -> None:
        """Record that runs from later statements of a run end where it ends."""
        for node in tree.body if self._has_numbers else ():
            decorators = node.decorator_list if isinstance(node, _Definition) else []
            parts: list[ast.stmt | ast.expr] = [node, *decorators]
            self._last[begin + min(part.lineno for part in parts) - 1] = last
