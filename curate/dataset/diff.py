"""What changed between two builds: their plans and inputs, and what became of each row.

Memory holds the ids of both, a digest of each kept row, and for rows that changed a digest of each column, so datasets
of millions of rows can be compared. Columns that are measured differ from run to run and are left out.
"""

import hashlib
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from curate.dataset.folder import DatasetFolder
from curate.dataset.integrity import check_integrity, mismatch_message
from curate.errors import CurateError
from curate.json_records import to_json
from curate.manifest import Plan, SourceCounts
from curate.problem import MEASURED_COLUMNS
from curate.progress import Progress, no_progress, with_progress

Change = tuple[str, str, str]  # name, old value, new value

EXAMPLES = 3
KEPT, CHANGED, ABSENT = "kept", "kept, but changed", "not there"
_DIGEST_BYTES = 8  # of a digest; about one pair of texts in 10**19 shares a digest


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """The number of rows with the same fate, and a few of these rows as examples."""

    n: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DatasetDiff:
    """What changed between two datasets.

    same_content: the rows of both have the same content hash, so only plan, inputs and measured columns can differ
    plan_changes, input_changes, count_changes: the differences, both values as JSON; a missing value is an empty text
    fates: rows that differ, by old and new fate: KEPT, ABSENT, or the stage, reason and cause of the rejection
    columns: rows that differ in a column, by the name of the column
    only_old, only_new: columns that only one of the two datasets has
    integrity_messages: a message for each dataset whose rows differ from its manifest
    reward_hashes: of both, None if unknown; measured columns can decide rewards, so they may differ if `same_content`
    is true
    """

    same_content: bool
    hashes: tuple[str, str]
    plan_changes: tuple[Change, ...]
    input_changes: tuple[Change, ...]
    count_changes: tuple[Change, ...]
    fates: Mapping[tuple[str, str], ChangedRows]
    columns: Mapping[str, ChangedRows]
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]
    integrity_messages: tuple[str, ...] = ()
    reward_hashes: tuple[str | None, str | None] = (None, None)


def diff_datasets(old: DatasetFolder, new: DatasetFolder, *, progress: Progress = no_progress) -> DatasetDiff:
    """Compare two datasets. Raises CurateError on damaged files.

    Rows are read only if the content hashes differ, or if the files are not those that were written.
    """
    before, after = old.manifest, new.manifest
    checked = [check_integrity(dataset, progress=progress) for dataset in (old, new)]
    hashes = checked[0].content_hash or "unknown", checked[1].content_hash or "unknown"
    columns, others = old.columns("data"), new.columns("data")
    fates: dict[tuple[str, str], ChangedRows] = {}
    changed: dict[str, ChangedRows] = {}
    if hashes[0] != hashes[1]:
        compared = sorted(columns & others - MEASURED_COLUMNS)
        if "id" not in compared:
            raise CurateError(f"{old.path} and {new.path}: their rows have no ids, so they cannot be told apart.")
        fates, differing = _fates(_states(old, compared, progress), _states(new, compared, progress))
        if differing:
            changed = _columns(old, new, compared, differing, progress)
    return DatasetDiff(
        same_content=hashes[0] == hashes[1],
        hashes=hashes,
        plan_changes=tuple(_differences(_plan(before.plan), _plan(after.plan))),
        input_changes=tuple(_differences(_inputs(before.plan), _inputs(after.plan))),
        count_changes=tuple(_differences(_counts(before.counts), _counts(after.counts))),
        fates=fates,
        columns=changed,
        only_old=tuple(sorted(columns - others)),
        only_new=tuple(sorted(others - columns)),
        integrity_messages=tuple(
            mismatch_message(dataset.path, integrity.faults)
            for dataset, integrity in zip((old, new), checked, strict=True)
            if integrity.faults
        ),
        reward_hashes=(checked[0].reward_hash, checked[1].reward_hash),
    )


def _states(dataset: DatasetFolder, columns: Sequence[str], progress: Progress) -> dict[str, bytes | str]:
    """Return the digest of each kept row and the reason of each rejected row, by id."""
    states: dict[str, bytes | str] = {}
    rows = dataset.rows("data", columns)
    for row in with_progress(rows, f"read {dataset.path}", progress, total=dataset.manifest.n_kept):
        states[row["id"]] = _digest([row[name] for name in columns], 16)
    why = [name for name in ("stage", "reason", "cause") if name in dataset.columns("rejected")]
    for row in dataset.rows("rejected", ["id", *why]) if why else ():
        reason = " ".join(row[name] for name in why if row[name])
        states.setdefault(row["id"], sys.intern(reason))
    return states


def _fates(
    old: dict[str, bytes | str], new: dict[str, bytes | str]
) -> tuple[dict[tuple[str, str], ChangedRows], set[str]]:
    """Return the rows whose fate differs, and the ids of rows that were kept both times and differ."""
    examples: dict[tuple[str, str], list[str]] = defaultdict(list)
    counted: Counter[tuple[str, str]] = Counter()
    differing: set[str] = set()
    for id in sorted(old.keys() | new.keys()):
        was, now = old.get(id), new.get(id)
        if was == now:
            continue
        if isinstance(was, bytes) and isinstance(now, bytes):
            differing.add(id)
        fate = _fate(was), CHANGED if id in differing else _fate(now)
        counted[fate] += 1
        if len(examples[fate]) < EXAMPLES:
            examples[fate].append(id)
    return {fate: ChangedRows(n, tuple(examples[fate])) for fate, n in counted.most_common()}, differing


def _fate(state: bytes | str | None) -> str:
    if state is None:
        return ABSENT
    return state if isinstance(state, str) else KEPT


def _columns(
    old: DatasetFolder, new: DatasetFolder, columns: Sequence[str], ids: set[str], progress: Progress
) -> dict[str, ChangedRows]:
    """Return the columns in which the rows of these ids differ."""
    before = dict(_column_digests(old, columns, ids))
    examples: dict[str, list[str]] = defaultdict(list)
    numbers: Counter[str] = Counter()
    for id, digests in with_progress(_column_digests(new, columns, ids), "compare columns", progress, total=len(ids)):
        for place, name in enumerate(columns):
            part = slice(place * _DIGEST_BYTES, (place + 1) * _DIGEST_BYTES)
            if digests[part] != before[id][part]:
                numbers[name] += 1
                if len(examples[name]) < EXAMPLES:
                    examples[name].append(id)
    return {name: ChangedRows(n, tuple(examples[name])) for name, n in numbers.most_common()}


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


def _plan(plan: Plan) -> dict[str, Any]:
    """Return the plan without its inputs and with a separate entry for each option."""
    others = {name: value for name, value in to_json(plan).items() if name not in ("configuration", "inputs")}
    return {**others, **plan.configuration}


def _inputs(plan: Plan) -> dict[str, str]:
    return {f"{source} {file.name}": file.sha256[:12] for source, files in plan.inputs.items() for file in files}


def _counts(counts: Mapping[str, SourceCounts]) -> dict[str, int | None]:
    numbers: dict[str, int | None] = {}
    for source, count in counts.items():
        numbers[f"{source} read"] = count.n_read
        for stage, reasons in count.rejected.items():
            numbers |= {f"{source} {stage} {reason}": n for reason, n in reasons.items()}
        numbers[f"{source} kept"] = count.n_kept
        numbers[f"{source} verified"] = count.n_verified
    return numbers
