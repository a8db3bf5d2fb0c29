"""The tables of docs/concepts/errors-of-evaluations.md."""

from collections.abc import Iterator

from benchmarks.record import load_results
from benchmarks.render.table import render_table


def render_coverage() -> Iterator[str]:
    """Yield the coverage of intervals, and the rate of false significance between equal models."""
    measured = load_results("intervals")
    rows = []
    for problems, by_samples in measured["single"].items():
        for samples, single in by_samples.items():
            rows.append([problems, samples])
            for found in (single, measured["paired"][problems][samples]):
                rows[-1] += [f"{share:.1%}" for share in (found["mean"], found["min"], found["usual"]["min"])]
    columns = ["mean", "lowest", "usual interval, lowest"]
    heads = ["problems", "samples of each", f"pass@1: {columns[0]}", *columns[1:], "difference: mean", *columns[1:]]
    settings = [measured[kind][problems]["8"]["settings"] for kind in ("single", "paired")]
    yield render_table("r", heads, rows) + (
        f"\n\nHow often 95% intervals hold: mean and lowest share over {settings[0]} settings of one model and"
        f" {settings[1]} of two; {measured['repeats']:,} evaluations of each setting."
    )
    rows = [
        [name, *(f"{by_samples[samples]['false']:.1%}" for samples in ("1", "8"))]
        for name, by_samples in measured["selection"].items()
    ]
    yield render_table("lr", ("models", "100 problems, one sample", "30 problems, 8 samples"), rows) + (
        "\n\nHow often one of the best models is significantly worse than the one that came out best."
        f" Measured on {measured['machine']}."
    )
