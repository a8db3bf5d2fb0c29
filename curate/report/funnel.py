"""Report what became of the rows of each source, stage by stage."""

from collections.abc import Mapping
from typing import Any

from curate.manifest import SourceCounts

STAGES = ("parse", "filter", "verify", "dedup", "decontaminate", "strength", "difficulty")


def build_funnel_section(counts: Mapping[str, SourceCounts]) -> dict[str, Any]:
    """Return for each source how many rows were read, how many were left after each stage, and how many stay.

    Stages in which no source lost a row are left out; custom stages follow those that curate knows. `verified` is None
    for datasets that curate did not build.
    """
    happened = {stage for count in counts.values() for stage in count.rejected}
    stages = [*(stage for stage in STAGES if stage in happened), *sorted(happened.difference(STAGES))]
    return {"stages": stages, "sources": {source: _source(count, stages) for source, count in counts.items()}}


def _source(count: SourceCounts, stages: list[str]) -> dict[str, Any]:
    left, after = count.n_read, []
    for stage in stages:
        left -= count.rejected_in(stage)
        after.append(left)
    return {"read": count.n_read, "after": after, "kept": count.n_kept, "verified": count.n_verified}
