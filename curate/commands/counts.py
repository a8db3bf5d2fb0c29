"""Tables of counts that commands print."""

from collections.abc import Mapping

import click

from curate.manifest import SetCounts, SourceCounts

_STAGES = ("parse", "filter", "verify", "dedup", "decontaminate", "strength")


def print_funnel(counts: Mapping[str, SourceCounts]) -> None:
    """Print a line for each source, then the numbers of rejected rows by stage and reason."""
    others = dict.fromkeys(stage for count in counts.values() for stage in count.rejected if stage not in _STAGES)
    stages = (*_STAGES, *others)
    click.echo(
        f"{'source':<16}{'read':>8}" + "".join(f"{stage[:8]:>9}" for stage in stages) + f"{'kept':>8}{'verified':>10}"
    )
    for name, count in counts.items():
        numbers = "".join(f"{-count.rejected_in(stage) or '':>9}" for stage in stages)
        click.echo(f"{name:<16}{count.read:>8}{numbers}{count.kept:>8}{count.verified:>10}")
    for name, count in counts.items():
        for stage, reasons in count.rejected.items():
            click.echo(f"  {name} {stage}: " + ", ".join(f"{reason} {n}" for reason, n in reasons.items()))


def print_contamination(sets: Mapping[str, SetCounts]) -> None:
    """Print a line for each evaluation set, and a warning if implausibly many rows contain its items."""
    click.echo(f"{'against':<32}{'items':>8}{'rows':>10}{'removed':>9}{'rate':>9}{'review':>8}")
    for name, count in sets.items():
        label = f"{name} {count.window or ''}"
        numbers = f"{count.items:>8}{count.rows:>10}{count.removed:>9}{count.removal_rate:>9.2%}"
        click.echo(f"{label:<32}{numbers}{count.review:>8}")
        if count.warning:
            click.echo(f"Warning: {name}: {count.warning}", err=True)
