"""A small finished dataset for exports, and its rows by id."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from curate.dataset import writer
from curate.problem import Problem, to_row
from sandbox import Case, Limits, Program, Referee, Suite

SUM = "print(sum(map(int, input().split())))"
SUMS = tuple(Case(f"{n} {n + 1}\n", f"{2 * n + 1}\n") for n in range(20))
JOIN = "class Solution:\n    def join(self, words, mark):\n        return [mark.join(words), len(words)]\n"
JOINS = tuple(Case(json.dumps([["a"] * n, "-"]), json.dumps(["-".join(["a"] * n), n])) for n in range(1, 9))

JUDGE = Referee(Program("print(1)"))


def problem(name: str, tests: Suite, reference: str | None, **changes: Any) -> Problem:
    code = None if reference is None else Program(reference)
    values: dict[str, Any] = {"statement": f"Statement of {name}.", "solutions": code and (code,), "licence": "MIT"}
    values |= {"verified": code is not None, "reference": code, "slowest_cpu_seconds": code and 0.01}
    return Problem(id=f"taco/{name}", source="taco", tests=tests, **(values | changes))


def problems() -> list[Problem]:
    """Return problems that read stdin, problems that are called, and problems that some formats cannot express."""
    return [
        problem("call", Suite(JOINS, entry_point="join"), JOIN, starter_code="class Solution:\n    def join(self):\n"),
        problem("dict", Suite([Case('[{"1": 2}, 3]', "3")], entry_point="f"), "def f(a, b): return b"),
        problem("none", Suite([Case("[]", "3")], entry_point="f"), "def f(): return 3"),
        problem("other", Suite(SUMS, limits=Limits(processes=3)), SUM),
        problem("referee", Suite(SUMS, checker="program", referee=JUDGE), SUM),
        problem("slow", Suite(SUMS), SUM, slowest_cpu_seconds=9.0),
        problem("sum", Suite(SUMS, limits=Limits(wall_seconds=3, memory_mb=300)), SUM, strongest_tests=(7, 2)),
        problem("unseen", Suite(SUMS), None),
    ]


def write(folder: Path, rows: Iterable[Problem]) -> Path:
    """Write the dataset as a build leaves it."""
    rows = list(rows)
    content_hash = writer.write(map(to_row, rows), [], folder).content_hash
    counts = {"read": len(rows), "rejected": {}, "kept": len(rows), "verified": sum(row.verified for row in rows)}
    manifest = {"plan": {}, "counts": {"taco": counts}, "content_hash": content_hash, "versions": {}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "README.md").write_text("A card.\n")
    return folder
