"""What changed between two builds: their plans and inputs, and what became of each row.

Memory holds the ids of both with a digest for each kept row, and for rows that changed a digest of each column, so
two datasets of millions of rows can be compared. Columns that are measured differ from run to run and are left out.
"""

import hashlib
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from curate.dataset.folder import DatasetFolder
from curate.errors import CurateError
from curate.problem import MEASURED

Report = Callable[[str, int, int | None], None]
Change = tuple[str, str, str]  # what, how it was, how it is

EXAMPLES = 3
KEPT, CHANGED, ABSENT = "kept", "kept, but changed", "not there"
_DIGEST_BYTES = 8  # of a column: two texts share one in 10**19 pairs


@dataclass(frozen=True, slots=True)
class Group:
    """Rows with the same fate: how many, and a few of them."""

    n: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Changes:
    """same: both have the same content hash, so only plan, inputs and what is measured can differ.

    plan, inputs, counts: what differs, with both values as JSON; nothing is empty.
    fates: of rows that differ, by what they were and what they are: KEPT, ABSENT or stage, reason and cause.
    columns: rows that differ in a column, by its name; only_old, only_new: columns that one of the two has.
    """

    same: bool
    hashes: tuple[str, str]
    plan: tuple[Change, ...]
    inputs: tuple[Change, ...]
    counts: tuple[Change, ...]
    fates: Mapping[tuple[str, str], Group]
    columns: Mapping[str, Group]
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]


def changes(old: DatasetFolder, new: DatasetFolder, *, report: Report = lambda stage, done, total: None) -> Changes:
    """Compare two datasets; rows are read only if the content hashes differ. Raises CurateError."""
    before, after = old.manifest, new.manifest
    hashes = str(before["content_hash"]), str(after["content_hash"])
    columns, others = old.columns("data"), new.columns("data")
    fates: dict[tuple[str, str], Group] = {}
    changed: dict[str, Group] = {}
    if hashes[0] != hashes[1]:
        compared = sorted(columns & others - MEASURED)
        if "id" not in compared:
            raise CurateError(f"{old.path} and {new.path}: their rows have no ids, so they cannot be told apart.")
        fates, differing = _fates(_states(old, compared, report), _states(new, compared, report))
        if differing:
            changed = _columns(old, new, compared, differing, report)
    return Changes(
        same=hashes[0] == hashes[1],
        hashes=hashes,
        plan=tuple(_differences(_plan(before["plan"]), _plan(after["plan"]))),
        inputs=tuple(_differences(_inputs(before["plan"]), _inputs(after["plan"]))),
        counts=tuple(_differences(_counts(before["counts"]), _counts(after["counts"]))),
        fates=fates,
        columns=changed,
        only_old=tuple(sorted(columns - others)),
        only_new=tuple(sorted(others - columns)),
    )


def _states(dataset: DatasetFolder, columns: Sequence[str], report: Report) -> dict[str, bytes | str]:
    """By id: the digest of a kept row, or why a rejected one fell out."""
    total = sum(count["kept"] for count in dataset.manifest["counts"].values())
    states: dict[str, bytes | str] = {}
    for done, row in enumerate(dataset.rows("data", columns), start=1):
        states[row["id"]] = _digest([row[name] for name in columns], 16)
        report(f"read {dataset.path}", done, total)
    why = [name for name in ("stage", "reason", "cause") if name in dataset.columns("rejected")]
    for row in dataset.rows("rejected", ["id", *why]) if why else ():
        words = " ".join(row[name] for name in why if row[name])
        states.setdefault(row["id"], sys.intern(words))
    return states


def _fates(old: dict[str, bytes | str], new: dict[str, bytes | str]) -> tuple[dict[tuple[str, str], Group], set[str]]:
    """Rows whose fate differs, and the ids of rows that were kept both times and differ."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    counted: Counter[tuple[str, str]] = Counter()
    differing: set[str] = set()
    for id in sorted(old.keys() | new.keys()):
        was, now = old.get(id), new.get(id)
        if was == now:
            continue
        if isinstance(was, bytes) and isinstance(now, bytes):
            differing.add(id)
        fate = _word(was), CHANGED if id in differing else _word(now)
        counted[fate] += 1
        if len(found[fate]) < EXAMPLES:
            found[fate].append(id)
    return {fate: Group(n, tuple(found[fate])) for fate, n in counted.most_common()}, differing


def _word(state: bytes | str | None) -> str:
    if state is None:
        return ABSENT
    return state if isinstance(state, str) else KEPT


def _columns(
    old: DatasetFolder, new: DatasetFolder, columns: Sequence[str], ids: set[str], report: Report
) -> dict[str, Group]:
    """In which columns the rows of these ids differ."""
    before = dict(_column_digests(old, columns, ids))
    found: dict[str, list[str]] = defaultdict(list)
    counted: Counter[str] = Counter()
    for done, (id, digests) in enumerate(_column_digests(new, columns, ids), start=1):
        for place, name in enumerate(columns):
            part = slice(place * _DIGEST_BYTES, (place + 1) * _DIGEST_BYTES)
            if digests[part] != before[id][part]:
                counted[name] += 1
                if len(found[name]) < EXAMPLES:
                    found[name].append(id)
        report("compare columns", done, len(ids))
    return {name: Group(n, tuple(found[name])) for name, n in counted.most_common()}


def _column_digests(dataset: DatasetFolder, columns: Sequence[str], ids: set[str]) -> Iterator[tuple[str, bytes]]:
    for row in dataset.rows("data", columns):
        if row["id"] in ids:
            yield row["id"], b"".join(_digest(row[name], _DIGEST_BYTES) for name in columns)


def _digest(value: Any, size: int) -> bytes:
    return hashlib.blake2b(json.dumps(value, default=str).encode(), digest_size=size).digest()


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            yield name, _json(old.get(name)), _json(new.get(name))


def _json(value: Any) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _plan(plan: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for, an option a line."""
    others = {name: value for name, value in plan.items() if name not in ("configuration", "inputs")}
    return {**others, **plan.get("configuration", {})}


def _inputs(plan: Mapping[str, Any]) -> dict[str, Any]:
    return {
        f"{source} {file['name']}": file["sha256"][:12]
        for source, files in plan.get("inputs", {}).items()
        for file in files
    }


def _counts(counts: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for source, count in counts.items():
        found[f"{source} read"] = count["read"]
        for stage, reasons in count.get("rejected", {}).items():
            found |= {f"{source} {stage} {reason}": n for reason, n in reasons.items()}
        found[f"{source} kept"] = count["kept"]
        found[f"{source} verified"] = count.get("verified")
    return found
