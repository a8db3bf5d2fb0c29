"""The differences between two datasets: plans, inputs, and the status of each row (kept, absent or rejected).

Memory holds the ids of both datasets and a hash of each column of each kept row. Measured columns differ from run to
run, so the comparison skips them.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from curate.dataset.dataset import BATCH_ROWS, Dataset
from curate.dataset.integrity import check_integrity, describe_mismatch
from curate.dataset.query import query, read_table
from curate.errors import CurateError
from curate.json_records import to_json
from curate.manifest import Plan, SourceCounts
from curate.problem import MEASURED_COLUMNS
from curate.progress import Progress, ignore_progress, track_batch_progress
from curate.text.document import Cell, Section, Table, Text, render_terminal

if TYPE_CHECKING:
    import pyarrow as pa

Change = tuple[str, str, str]  # name, old value, new value

EXAMPLES = 3
KEPT, CHANGED, ABSENT = "kept", "kept, but changed", "not there"


def _build_fate_query(name: str) -> str:
    return f"""
        SELECT id, '{KEPT}' AS fate, hashes FROM {name}_kept
        UNION ALL
        SELECT id::VARCHAR AS id, min(concat_ws(' ', nullif(stage, ''), nullif(reason, ''), nullif(cause, ''))), NULL
        FROM {name}_rejected ANTI JOIN {name}_kept USING (id) WHERE id IS NOT NULL GROUP BY id
    """


# An id with a kept and a rejected row counts as kept. One of about 10**19 pairs of values has a hash collision.
_DIFFERENCES = f"""
    WITH old_kept AS MATERIALIZED (SELECT id::VARCHAR AS id, [{{hashes}}] AS hashes FROM old_data),
        new_kept AS MATERIALIZED (SELECT id::VARCHAR AS id, [{{hashes}}] AS hashes FROM new_data),
        old_states AS ({_build_fate_query("old")}),
        new_states AS ({_build_fate_query("new")}),
        changed AS MATERIALIZED (
            SELECT id, a.fate AS was, b.fate AS now, a.hashes AS old, b.hashes AS new
            FROM old_states a FULL JOIN new_states b USING (id)
            WHERE was IS DISTINCT FROM now OR old IS DISTINCT FROM new
        ),
        values AS (SELECT id, unnest([{{names}}]) AS name, unnest(old) AS was, unnest(new) AS now FROM changed
            WHERE old IS NOT NULL AND new IS NOT NULL)
    SELECT ifnull(was, '{ABSENT}') AS was, if(old IS NOT NULL AND new IS NOT NULL, '{CHANGED}', ifnull(now, '{ABSENT}'))
        AS now, count(*) AS n, min(id, {EXAMPLES}) AS examples FROM changed GROUP BY ALL
    UNION ALL
    SELECT name, NULL, count(*), min(id, {EXAMPLES}) FROM values WHERE was <> now GROUP BY name
    ORDER BY n DESC, examples, was, now
"""


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """The number of rows with the same change, and the ids of a few of them."""

    n: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DatasetDiff:
    """The differences between two datasets.

    same_content: whether both content hashes are equal, so only plan, inputs and measured columns can differ
    hashes: both content hashes
    plan_changes, input_changes, count_changes: the differences, with values as JSON; empty for a missing value
    fates: changed rows by old and new status: KEPT, ABSENT, or the stage, reason and cause of the rejection
    columns: rows that differ in a column, by the name of the column
    only_old, only_new: columns of only one of the datasets
    integrity_messages: a message for each dataset whose rows differ from its manifest
    reward_hashes: both reward hashes, which cover some measured columns; None if unknown
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


def diff_datasets(old: Dataset, new: Dataset, *, progress: Progress = ignore_progress) -> DatasetDiff:
    """Compare two datasets. Raises CurateError on damaged files.

    Reads rows only if the content hashes differ or files were changed.
    """
    before, after = old.manifest, new.manifest
    checked = [check_integrity(dataset, progress=progress) for dataset in (old, new)]
    hashes = checked[0].content_hash or "unknown", checked[1].content_hash or "unknown"
    columns, others = old.read_columns("data"), new.read_columns("data")
    fates: dict[tuple[str, str], ChangedRows] = {}
    changed: dict[str, ChangedRows] = {}
    if hashes[0] != hashes[1]:
        compared = sorted(columns & others - MEASURED_COLUMNS)
        if "id" not in compared:
            raise CurateError(
                f"{old.path} and {new.path}: rows without ids cannot be compared. Pass datasets that curate built."
            )
        fates, changed = _compare_rows(old, new, compared, progress)
    return DatasetDiff(
        same_content=hashes[0] == hashes[1],
        hashes=hashes,
        plan_changes=tuple(_list_changes(_flatten_plan(before.plan), _flatten_plan(after.plan))),
        input_changes=tuple(_list_changes(_flatten_inputs(before.plan), _flatten_inputs(after.plan))),
        count_changes=tuple(_list_changes(_flatten_counts(before.counts), _flatten_counts(after.counts))),
        fates=fates,
        columns=changed,
        only_old=tuple(sorted(columns - others)),
        only_new=tuple(sorted(others - columns)),
        integrity_messages=tuple(
            describe_mismatch(dataset.path, integrity.faults)
            for dataset, integrity in zip((old, new), checked, strict=True)
            if integrity.faults
        ),
        reward_hashes=(checked[0].reward_hash, checked[1].reward_hash),
    )


def _compare_rows(
    old: Dataset, new: Dataset, columns: Sequence[str], progress: Progress
) -> tuple[dict[tuple[str, str], ChangedRows], dict[str, ChangedRows]]:
    """Return the rows by change of status, and the rows kept in both datasets by changed column."""
    escaped = [name.replace('"', '""') for name in columns]
    hashes = ", ".join(f'hash(to_json("{name}")::VARCHAR)' for name in escaped)
    names = ", ".join("'" + name.replace("'", "''") + "'" for name in columns)
    tables: dict[str, pa.RecordBatchReader] = {}
    for name, dataset in (("old", old), ("new", new)):
        rows = read_table(dataset, "data", columns, rows=BATCH_ROWS)
        batches = track_batch_progress(rows, f"read {dataset.path}", progress, total=dataset.manifest.n_kept)
        tables[f"{name}_data"] = rows.from_batches(rows.schema, batches)
        tables[f"{name}_rejected"] = read_table(dataset, "rejected", ("id", "stage", "reason", "cause"))
    fates: dict[tuple[str, str], ChangedRows] = {}
    changed: dict[str, ChangedRows] = {}
    for row in query(_DIFFERENCES.format(hashes=hashes, names=names), **tables):
        group = ChangedRows(row["n"], tuple(row["examples"]))
        if row["now"] is None:
            changed[row["was"]] = group
        else:
            fates[row["was"], row["now"]] = group
    return fates, changed


def _list_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            yield name, _format_json(old.get(name)), _format_json(new.get(name))


def _format_json(value: Any) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _flatten_plan(plan: Plan) -> dict[str, Any]:
    """Return the plan without its inputs, with the options of its configuration at the top level."""
    others = {name: value for name, value in to_json(plan).items() if name not in ("configuration", "inputs")}
    return {**others, **plan.configuration}


def _flatten_inputs(plan: Plan) -> dict[str, str]:
    return {f"{source} {file.name}": file.sha256[:12] for source, files in plan.inputs.items() for file in files}


def _flatten_counts(counts: Mapping[str, SourceCounts]) -> dict[str, int | None]:
    numbers: dict[str, int | None] = {}
    for source, count in counts.items():
        numbers[f"{source} read"] = count.n_read
        for stage, reasons in count.rejected.items():
            numbers |= {f"{source} {stage} {reason}": n for reason, n in reasons.items()}
        numbers[f"{source} kept"] = count.n_kept
        numbers[f"{source} verified"] = count.n_verified
    return numbers


def format_lines(diff: DatasetDiff) -> Iterator[str]:
    """Yield a section for each kind of change, then whether the content is the same."""
    changes = {"Plan": diff.plan_changes, "Inputs": diff.input_changes, "Counts": diff.count_changes}
    sections = [Section(title, [Table(["", "was", "is"], changed)]) for title, changed in changes.items() if changed]
    if diff.fates:
        fates: list[list[Cell]] = [
            [was, now, group.n, _format_examples(group)] for (was, now), group in diff.fates.items()
        ]
        sections.append(Section("Rows", [Table(["was", "is", "rows", "for example"], fates)]))
    if diff.columns:
        columns: list[list[Cell]] = [[name, group.n, _format_examples(group)] for name, group in diff.columns.items()]
        table = Table(["column", "rows", "for example"], columns)
        sections.append(Section("Columns of rows that were kept and changed", [table]))
    for names, dataset in ((diff.only_old, "first"), (diff.only_new, "second")):
        if names:
            sections.append(Section(f"Only the {dataset} dataset has the columns {', '.join(names)}", [Text("")]))
    lines = list(render_terminal(sections))
    yield from lines
    if lines:
        yield ""
    if diff.same_content:
        yield f"Same content: {diff.hashes[0]}"
        was, now = diff.reward_hashes
        if was and now and was != now:
            yield f"Rewards can differ, because measured columns changed: reward hash {was} became {now}"
    else:
        if not diff.fates:
            yield "No row changed: only details of rejections, or columns of one dataset, differ."
        yield f"Different content: {diff.hashes[0]} became {diff.hashes[1]}"


def _format_examples(group: ChangedRows) -> str:
    return ", ".join(group.examples) + (", ..." if group.n > len(group.examples) else "")
