"""Output of commands: lines for terminals of any encoding, the hashes of a dataset, and tables of counts."""

import io
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from curate.manifest import Manifest, SetCounts, SourceCounts
from curate.text.printable import format_one_line
from sandbox.commands.table import TableColumn, TableRow, print_table, warn

_EXAMPLE_CHARACTERS = 150  # maximum length of an example
_STAGES = ("parse", "filter", "verify", "dedup", "decontaminate", "strength")


def print_lines(lines: Iterable[str]) -> None:
    """Print untrusted text, with escapes for characters that the terminal's encoding lacks."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    for line in lines:
        click.echo(line)


def print_hashes(manifest: Manifest) -> None:
    """Print the hashes of the dataset, for `curate verify`."""
    for name in ("manifest", "reward", "content"):
        if value := getattr(manifest, f"{name}_hash"):
            click.echo(f"{name} hash {value}")


def print_funnel(counts: Mapping[str, SourceCounts], rejected: Iterable[Mapping[str, Any]]) -> None:
    """Print a line for each source, then the numbers of rejected rows by stage and reason, with an example of each.

    rejected: rows of the table `rejected`; the first row of each reason is its example
    """
    others = dict.fromkeys(stage for count in counts.values() for stage in count.rejected if stage not in _STAGES)
    stages = (*_STAGES, *others)
    columns = [
        TableColumn("source", 16, is_text=True),
        TableColumn("read", 8),
        *(TableColumn(stage[:8], 9) for stage in stages),
    ]
    rows = []
    for name, count in counts.items():
        losses = [str(-count.count_rejected(stage) or "") for stage in stages]
        rows.append(TableRow([name, str(count.n_read), *losses, str(count.n_kept), str(count.n_verified)]))
    print_table([*columns, TableColumn("kept", 8), TableColumn("verified", 10)], rows)
    examples: dict[tuple[str, str, str], str] = {}
    for row in rejected:
        examples.setdefault((row["source"], row["stage"], row["reason"]), f"{row['id']}: {row['detail']}")
    for name, count in counts.items():
        for stage, reasons in count.rejected.items():
            click.echo(f"  {name} {stage}: " + ", ".join(f"{reason} {n}" for reason, n in reasons.items()))
            for reason in reasons:
                if example := examples.get((name, stage, reason)):
                    click.echo(f"    {reason}: {format_one_line(example, _EXAMPLE_CHARACTERS)}")


def read_rejected_rows(dataset: Path) -> Iterator[dict[str, Any]]:
    """Yield the rejected rows of a finished dataset, for print_funnel."""
    from curate.dataset.dataset import Dataset

    return Dataset.open(dataset).iter_rows("rejected", ("id", "source", "stage", "reason", "detail"))


def print_contamination(sets: Mapping[str, SetCounts]) -> None:
    """Print a line for each evaluation set, and a warning if implausibly many rows contain its items."""
    widths = {"items": 8, "rows": 10, "removed": 9, "rate": 9, "review": 8}
    numbers = [TableColumn(name, width) for name, width in widths.items()]
    rows = []
    for name, count in sets.items():
        cells = [f"{name} {count.window or ''}", str(count.items), str(count.rows), str(count.removed)]
        rows.append(TableRow([*cells, f"{count.removal_rate:.2%}", str(count.n_to_review)]))
    print_table([TableColumn("against", 32, is_text=True), *numbers], rows)
    for name, count in sets.items():
        if count.warning:
            warn(f"{name}: {count.warning}")
