"""What became of the rows of each source, stage by stage."""

from typing import Any

STAGES = ("parse", "filter", "verify", "dedup", "decontaminate", "strength", "difficulty")


def funnel(counts: dict[str, Any]) -> dict[str, Any]:
    """counts: those of the manifest. For each source how many rows were read, were left after each stage, and stay.

    Stages in which no source lost a row are left out. A source that was told nothing about references has no
    `verified`.
    """
    lost = {
        source: {stage: sum(reasons.values()) for stage, reasons in count.get("rejected", {}).items()}
        for source, count in counts.items()
    }
    happened = {stage for stages in lost.values() for stage in stages}
    stages = [*(stage for stage in STAGES if stage in happened), *sorted(happened.difference(STAGES))]
    return {
        "stages": stages,
        "sources": {source: _source(count, lost[source], stages) for source, count in counts.items()},
    }


def _source(count: dict[str, Any], lost: dict[str, int], stages: list[str]) -> dict[str, Any]:
    left, after = count["read"], []
    for stage in stages:
        left -= lost.get(stage, 0)
        after.append(left)
    return {"read": count["read"], "after": after, "kept": count["kept"], "verified": count.get("verified")}
