"""The section "The swarm"."""

from collections.abc import Iterator
from typing import Any

from benchmarks.render.table import render_table


def render_overlap(measured: dict[str, Any]) -> str:
    """Return the idle time of a swarm's trainer, by bound on staleness, with whole broadcasts and with deltas."""
    cases = measured["cases"]
    bounds = list(next(iter(cases.values()))["whole"])
    columns = [(broadcast, bound) for broadcast in ("whole", "deltas") for bound in bounds]
    alike = cases["equal nodes"]
    rows = []
    for name, case in (("by the formula", alike), *cases.items()):
        value = "formula_idle" if name == "by the formula" else "trainer_idle"
        rows.append([name, *(f"{case[broadcast][bound][value]:.1%}" for broadcast, bound in columns)])
    ring, swarm = measured["ring"], measured["swarm"]
    heads = [
        "idle share of the trainer",
        *(f"{broadcast}, bound {bound}" for broadcast, bound in columns),
    ]
    return render_table("lr", heads, rows) + (
        f"\n\nINTELLECT-2's outer ring on a simulated clock: broadcasts of {ring['broadcast'] / 60:.0f} min, or"
        f" {measured['delta_seconds']:.0f} s with deltas; {ring['upload'] / 60:.0f} min each to upload and"
        f" to verify a file; steps of {ring['step'] / 60:.0f} min. Unequal nodes have log-normal speeds"
        f" (sigma {swarm['speed_sigma']}), the lease of a group expires after twice the mean group time, and"
        f" {swarm['churn']:.0%} of the nodes vanish per hour. Means of {measured['seeds']} seeds;"
        " benchmarks/swarm/overlap.py has all assumptions."
    )


def render_broadcast(measured: dict[str, Any]) -> str:
    """Return the time of a broadcast through throttled relays."""
    rows: list[tuple[str, ...]] = []
    for relays, by_client in measured["three"].items():
        for client, found in by_client.items():
            name = f"{client.replace('ours', 'curate-code')}, {relays.replace('honest', 'all honest')}"
            if "failed" in found:
                rows.append((f"{name} | | failed {found['failed']} times of {found['of']} |",))
                continue
            ideal, median = measured["megabytes"] / found["ideal"], found["median_seconds"]
            rows.append((name, f"{ideal:.2f}", f"{median:.2f}", f"{found['share_of_ideal']:.0%}"))
    heads = ("256 MB from relays of 20, 40 and 80 MB/s", "ideal, s", "median, s", "share of ideal")
    return render_table("lr", heads, rows) + (
        f"\n\nMedians of {measured['rounds']} rounds. Measured on {measured['machine']}."
    )


def render_delta(measured: dict[str, Any]) -> str:
    """Return the size of differences between versions, by learning rate."""
    rows = (
        (rate, f"{found['changed_share']:.1%}", f"{found['bytes_share']:.1%}", f"{found['minutes_at_intellect_2']:.1f}")
        for rate, found in measured["learning_rates"].items()
    )
    heads = ("learning rate", "weights that change", "bytes sent", "minutes for INTELLECT-2's 65.6 GB")
    return render_table("r", heads, rows) + (
        f"\n\nA trained model of {measured['weights']:,} weights, with {measured['updates_per_version']} updates of"
        " Adam between versions, compared in bfloat16. A whole version would take"
        f" {measured['whole_minutes_at_intellect_2']:.1f} minutes at 590 Mb/s; the trainer sends a whole version"
        f" instead of a delta above 35% of its bytes. Measured on {measured['machine']}."
    )


def render_verification(measured: dict[str, Any]) -> str:
    """Return the rejected leases, and the undetected changes within the thresholds, by the precision of both sides."""
    pairs = measured["pairs"]
    first = next(iter(pairs.values()))
    outcomes = [f"{pair}: {head}" for pair in pairs for head in ("rejected", "banned", "errors per 1,000")]
    rows = []
    for case in first["cases"]:
        cells = (cell for pair in pairs.values() for cell in _format_outcomes(case, pair["cases"][case]))
        rows.append([case, *cells])
    cases = render_table("lr", ["leases, precision of both sides", *outcomes], rows)
    rows = []
    for name, pair in pairs.items():
        limit = pair["thresholds"]["margins"]["limit"]
        cells = (f"{pair['honest_mismatches']:.2g}", f"{limit:.2g}", f"{pair['near_ties']:.3g}")
        rows.append([name, *cells, *(f"{pair['replaceable'][size]:.2g}" for size in first["replaceable"])])
    heads = ["per 1,000 tokens, precision of both sides", "changed by rounding", "limit of a margin, nats", "near ties"]
    replaceable = render_table("lr", heads + [f"a cheat may change, {size}" for size in first["replaceable"]], rows)
    costs = measured["costs"]
    shares = ", ".join(f"{pair['verification_share']:.0%} in {name}" for name, pair in pairs.items())
    modelled = ", ".join(f"{of['verification_share']:.0%} for {name}" for name, of in measured["modelled"].items())
    return (
        f"{cases}\n\n{replaceable}\n\nA random model of width 256, with a mean of 1 - Σp² of {first['spread']:.2f}."
        f" vLLM samples leases of {measured['lease']} each, and transformers verifies them, with thresholds from"
        f" {measured['calibration_leases']} other leases. Errors are rejected honest leases and accepted dishonest"
        " ones: upper bounds with a confidence of 95%. Weights that are one step old pass if the step was small. A"
        " cheat with knowledge of the thresholds replaces the best token by the second best at the nearest ties, in"
        f" leases of (completions x tokens). On one CPU core, a commitment takes {costs['commit_us']:.0f} µs and"
        f" {costs['bytes_a_token']:.1f} bytes per token (width 5,120), its comparison {costs['compare_us']:.0f} µs,"
        f" and the noise for a vocabulary of 152,000 tokens {costs['noise_us'] / 1000:.1f} ms. Verification took"
        f" {shares} of the time of sampling, because on a CPU sampling a token costs about as much as its prefill."
        f" From the data sheet of a GPU, it takes {modelled}. Measured on {measured['machine']}."
    )


def _format_outcomes(name: str, case: dict[str, Any]) -> Iterator[str]:
    at_most = case["rejected_at_most" if name == "honest" else "accepted_at_most"]
    yield from (f"{case['rejected']} of {case['leases']}", f"{case['banned']}")
    yield f"≤ {at_most:,.{0 if at_most >= 10 else 1}f}"


def render_coordinator(measured: dict[str, Any]) -> str:
    leases = measured["leases"]
    return (
        f"One coordinator with {measured['nodes']:,} nodes: {measured['fastest']['per_second']:,.0f} signed requests"
        f" per second over {measured['connections']} connections; {leases['per_second']:.0f} leases per second from the"
        f" request to the verdict, with files of {leases['file_bytes'] / 1000:.0f} KB and the ledger on disk."
        f" Measured on {measured['machine']}."
    )


RENDERERS = {
    "overlap": render_overlap,
    "broadcast": render_broadcast,
    "delta": render_delta,
    "verification": render_verification,
    "coordinator": render_coordinator,
}
