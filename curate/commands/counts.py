"""Tables of counts that commands print."""

from typing import Any

import click


def print_funnel(counts: dict[str, Any]) -> None:
    """One line per source, then what was rejected, by stage and reason."""
    stages = ("parse", "filter", "verify", "dedup", "decontaminate", "strength")
    click.echo(
        f"{'source':<16}{'read':>8}" + "".join(f"{stage[:8]:>9}" for stage in stages) + f"{'kept':>8}{'verified':>10}"
    )
    for name, count in counts.items():
        lost = (-sum(count["rejected"].get(stage, {}).values()) for stage in stages)
        numbers = "".join(f"{number or '':>9}" for number in lost)
        click.echo(f"{name:<16}{count['read']:>8}{numbers}{count['kept']:>8}{count['verified']:>10}")
    for name, count in counts.items():
        for stage, reasons in count["rejected"].items():
            click.echo(f"  {name} {stage}: " + ", ".join(f"{reason} {n}" for reason, n in reasons.items()))


def print_contamination(sets: dict[str, Any]) -> None:
    """One line per evaluation set; a warning where more was found in it than is plausible."""
    click.echo(f"{'against':<32}{'items':>8}{'rows':>10}{'removed':>9}{'rate':>9}{'review':>8}")
    for name, count in sets.items():
        label = f"{name} {count['window'] or ''}"
        numbers = f"{count['items']:>8}{count['rows']:>10}{count['removed']:>9}{count['removal_rate']:>9.2%}"
        click.echo(f"{label:<32}{numbers}{count['review']:>8}")
        if count["warning"]:
            click.echo(f"Warning: {name}: {count['warning']}", err=True)
