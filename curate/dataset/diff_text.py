"""What changed between two builds, as lines for a terminal."""

from collections.abc import Iterator

from curate.dataset.diff import Change, ChangedRows, DatasetDiff
from curate.text.printable import format_table, one_line

_VALUE = 60  # characters of an option that are shown


def format_lines(diff: DatasetDiff) -> Iterator[str]:
    """Yield a section for each kind of change that occurs, and the verdict at the end."""
    for title, differing in (
        ("Plan", diff.plan_changes),
        ("Inputs", diff.input_changes),
        ("Counts", diff.count_changes),
    ):
        if differing:
            yield f"{title}\n"
            yield from format_table(["", "was", "is"], [_short(change) for change in differing], indent="  ")
            yield ""
    if diff.fates:
        yield "Rows\n"
        rows = [[was, now, group.n, _examples(group)] for (was, now), group in diff.fates.items()]
        yield from format_table(["was", "is", "rows", "for example"], rows, indent="  ")
        yield ""
    if diff.columns:
        yield "Columns of rows that were kept and changed\n"
        changed = [[name, group.n, _examples(group)] for name, group in diff.columns.items()]
        yield from format_table(["column", "rows", "for example"], changed, indent="  ")
        yield ""
    for names, dataset in ((diff.only_old, "first"), (diff.only_new, "second")):
        if names:
            yield f"Only the {dataset} dataset has the columns {', '.join(names)}\n"
    if diff.same_content:
        yield f"Same content: {diff.hashes[0]}"
        was, now = diff.reward_hashes
        if was and now and was != now:
            yield f"Measured columns decide on different rewards: reward hash {was} became {now}"
    else:
        if not diff.fates:
            yield "No row changed: the differences are in details of rejections, or in columns that only one has."
        yield f"Different content: {diff.hashes[0]} became {diff.hashes[1]}"


def _short(change: Change) -> tuple[str, str, str]:
    name, was, now = change
    return name, one_line(was, _VALUE), one_line(now, _VALUE)


def _examples(group: ChangedRows) -> str:
    return ", ".join(group.examples) + (", ..." if group.n > len(group.examples) else "")
