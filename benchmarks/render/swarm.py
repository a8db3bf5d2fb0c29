"""The section "The swarm"."""

from collections.abc import Iterator
from typing import Any

from benchmarks.render.table import join_cells, render_table


def render_overlap(measured: dict[str, Any]) -> Iterator[str]:
    """Yield the idle time of a swarm's trainer, by bound on staleness, with whole broadcasts and with deltas."""
    cases, ring, swarm = measured["cases"], measured["ring"], measured["swarm"]
    alike = cases["equal nodes"]
    columns = [(broadcast, bound) for broadcast in ("whole", "deltas") for bound in alike["whole"]]
    rows = []
    for name, case, share in (
        ("by the formula", alike, "formula_idle"),
        *((name, case, "trainer_idle") for name, case in cases.items()),
    ):
        rows.append(join_cells(name, *(f"{case[broadcast][bound][share]:.1%}" for broadcast, bound in columns)))
    heads = join_cells("idle share of the trainer", *(f"{broadcast}, bound {bound}" for broadcast, bound in columns))
    yield render_table(heads, rows)
    yield (
        f"INTELLECT-2's outer ring on a simulated clock: broadcasts of {ring['broadcast'] / 60:.0f} min, or"
        f" {measured['delta_seconds']:.0f} s with deltas; {ring['upload'] / 60:.0f} min each to upload and"
        f" to verify a file; steps of {ring['step'] / 60:.0f} min. Unequal nodes have log-normal speeds"
        f" (sigma {swarm['speed_sigma']}), the lease of a group expires after twice the mean group time, and"
        f" {swarm['churn']:.0%} of the nodes vanish per hour. Means of {measured['seeds']} seeds;"
        " benchmarks/swarm/overlap.py has all assumptions."
    )


def render_broadcast(measured: dict[str, Any]) -> Iterator[str]:
    """Yield the time of a broadcast through throttled relays."""
    rows = []
    for relays, by_client in measured["three"].items():
        for client, found in by_client.items():
            name = f"{client.replace('ours', 'curate-code')}, {relays.replace('honest', 'all honest')}"
            if "failed" in found:
                rows.append(f"{name} |  | failed {found['failed']} times of {found['of']} | ")
            else:
                ideal = measured["megabytes"] / found["ideal"]
                rows.append(f"{name} | {ideal:.2f} | {found['median_seconds']:.2f} | {found['share_of_ideal']:.0%}")
    yield render_table("256 MB from relays of 20, 40 and 80 MB/s | ideal, s | median, s | share of ideal", rows)
    yield f"Medians of {measured['rounds']} rounds."


def render_delta(measured: dict[str, Any]) -> Iterator[str]:
    """Yield the size of differences between versions, by learning rate."""
    rows = (
        f"{rate} | {found['changed_share']:.1%} | {found['bytes_share']:.1%} | {found['minutes_at_intellect_2']:.1f}"
        for rate, found in measured["learning_rates"].items()
    )
    heads = "learning rate | weights that change | bytes sent | minutes for INTELLECT-2's 65.6 GB"
    yield render_table(heads, rows, "r")
    yield (
        f"A trained model of {measured['weights']:,} weights, with {measured['updates_per_version']} updates of"
        " Adam between versions, compared in bfloat16. A whole version would take"
        f" {measured['whole_minutes_at_intellect_2']:.1f} minutes at 590 Mb/s; the trainer sends a whole version"
        " instead of a delta above 35% of its bytes."
    )


def render_verification(measured: dict[str, Any]) -> Iterator[str]:
    """Yield the rejected leases, and the undetected changes within the thresholds, by the precision of both sides."""
    pairs = measured["pairs"]
    first = next(iter(pairs.values()))
    heads = join_cells(
        "leases, precision of both sides",
        *(f"{name}: rejected | {name}: banned | {name}: errors per 1,000" for name in pairs),
    )
    rows = (
        join_cells(case, *(_render_outcomes(case, pair["cases"][case]) for pair in pairs.values()))
        for case in first["cases"]
    )
    cases = render_table(heads, rows)
    heads = join_cells(
        "per 1,000 tokens, precision of both sides | changed by rounding | limit of a margin, nats | near ties",
        *(f"a cheat may change, {size}" for size in first["replaceable"]),
    )
    rows = (
        join_cells(
            f"{name} | {pair['honest_mismatches']:.2g} | {pair['thresholds']['margins']['limit']:.2g}",
            f"{pair['near_ties']:.3g}",
            *(f"{count:.2g}" for count in pair["replaceable"].values()),
        )
        for name, pair in pairs.items()
    )
    costs = measured["costs"]
    shares = ", ".join(f"{pair['verification_share']:.0%} in {name}" for name, pair in pairs.items())
    modelled = ", ".join(f"{of['verification_share']:.0%} for {name}" for name, of in measured["modelled"].items())
    yield f"{cases}\n\n{render_table(heads, rows)}"
    yield (
        f"A random model of width 256, with a mean of 1 - Σp² of {first['spread']:.2f}."
        f" vLLM samples leases of {measured['lease']} each, and transformers verifies them, with thresholds from"
        f" {measured['calibration_leases']} other leases. Errors are rejected honest leases and accepted dishonest"
        " ones: upper bounds with a confidence of 95%. Weights that are one step old pass if the step was small. A"
        " cheat with knowledge of the thresholds replaces the best token by the second best at the nearest ties, in"
        f" leases of (completions x tokens). On one CPU core, a commitment takes {costs['commit_us']:.0f} µs and"
        f" {costs['bytes_a_token']:.1f} bytes per token (width 5,120), its comparison {costs['compare_us']:.0f} µs,"
        f" and the noise for a vocabulary of 152,000 tokens {costs['noise_us'] / 1000:.1f} ms. Verification took"
        f" {shares} of the time of sampling, because on a CPU sampling a token costs about as much as its prefill."
        f" From the data sheet of a GPU, it takes {modelled}."
    )


def _render_outcomes(name: str, case: dict[str, Any]) -> str:
    at_most = case["rejected_at_most" if name == "honest" else "accepted_at_most"]
    return f"{case['rejected']} of {case['leases']} | {case['banned']} | ≤ {at_most:,.{0 if at_most >= 10 else 1}f}"


def render_coordinator(measured: dict[str, Any]) -> Iterator[str]:
    leases = measured["leases"]
    yield (
        f"One coordinator with {measured['nodes']:,} nodes: {measured['fastest']['per_second']:,.0f} signed requests"
        f" per second over {measured['connections']} connections; {leases['per_second']:.0f} leases per second from the"
        f" request to the verdict, with files of {leases['file_bytes'] / 1000:.0f} KB and the ledger on disk."
    )


RENDERERS = {
    "overlap": render_overlap,
    "broadcast": render_broadcast,
    "delta": render_delta,
    "verification": render_verification,
    "coordinator": render_coordinator,
}
