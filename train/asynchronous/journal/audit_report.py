"""What the journal of a run proves, in words."""

from collections.abc import Iterator
from pathlib import Path

from train.asynchronous.journal.audit import audit_journal
from train.asynchronous.journal.frames import FOLDER
from train.asynchronous.journal.reader import read_events
from train.errors import CheckpointError

_MAX_FINDINGS = 5  # of those that are named


def audit_lines(run_folder: Path, *, staleness: int) -> Iterator[str]:
    """Yield lines about the journal of the run in a folder; none if it has no journal.

    staleness: the bound that no token may exceed

    Raises CheckpointError if the journal is damaged, or proves that a group was lost, trained on twice or too old.
    """
    found = audit_journal(read_events(run_folder / FOLDER), staleness=staleness)
    if found.findings:
        raise CheckpointError(
            f"the journal of {run_folder} proves {len(found.findings)} faults: "
            f"{'; '.join(found.findings[:_MAX_FINDINGS])}. If a file of {run_folder / FOLDER} was removed or replaced, "
            "restore it from a copy; otherwise, please report this."
        )
    if not found.n_batches:
        return
    given_up = ", ".join(f"{reason} {n:,}" for reason, n in sorted(found.rejection_counts.items())) or "none"
    yield (
        f"journal    {found.n_batches:,} batches of {found.n_used:,} groups, none of them twice; given up: {given_up}; "
        f"open at the end: {found.n_open:,}"
    )
    yield (
        f"staleness  the oldest token was trained on {found.max_staleness} updates after its weights; "
        f"allowed: {staleness}"
    )
