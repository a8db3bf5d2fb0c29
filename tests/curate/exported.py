"""A small finished dataset for exports, and its rows by id."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from curate.dataset import card, evidence, output_folder
from curate.dataset.digests import RowHasher, write_digests
from curate.dataset.writer import REJECTED_COLUMNS, make_rejected_row, write_table
from curate.manifest import BuildInfo, Manifest, Plan, SourceCounts, compute_hash, to_json
from curate.problem import COLUMNS, Problem, Rejection, to_row
from curate.report.report_files import write_report
from sandbox import Case, Limits, Program, Referee, Suite

SUM = "print(sum(map(int, input().split())))"
SUMS = tuple(Case(f"{n} {n + 1}\n", f"{2 * n + 1}\n") for n in range(20))
JOIN = "class Solution:\n    def join(self, words, mark):\n        return [mark.join(words), len(words)]\n"
JOINS = tuple(Case(json.dumps([["a"] * n, "-"]), json.dumps(["-".join(["a"] * n), n])) for n in range(1, 9))

JUDGE = Referee(Program("print(1)"))


def write_tables(rows: Iterable[dict[str, Any]], rejections: Iterable[Rejection], folder: Path) -> RowHasher:
    """Write `data/`, `rejected/` and `digests.parquet` into the folder and return the hashes of the rows."""
    hasher = RowHasher()
    write_table((hasher.add(row, "data") for row in rows), COLUMNS, folder / "data")
    rejected = (hasher.add(make_rejected_row(rejection), "rejected") for rejection in rejections)
    write_table(rejected, REJECTED_COLUMNS, folder / "rejected")
    write_digests(hasher, folder)
    return hasher


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
    hasher = write_tables(map(to_row, rows), [], folder)
    write_table([], evidence.EVIDENCE_COLUMNS, folder / evidence.EVIDENCE)
    counts = {"taco": SourceCounts(len(rows), {}, len(rows), sum(row.verified for row in rows))}
    manifest = Manifest(Plan(), hasher.content_hash, counts, build=BuildInfo({}), reward_hash=hasher.reward_hash)
    card.write(manifest, folder)
    write_report(folder, manifest, None)
    content = to_json(replace(manifest, files=output_folder.hash_immutable_files(folder)))
    (folder / "manifest.json").write_text(json.dumps({**content, "manifest_hash": compute_hash(content)}))
    return folder
