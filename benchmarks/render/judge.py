"""The section "The judge"."""

from collections.abc import Iterator
from typing import Any

from benchmarks.render.table import join_cells, render_table


def render_sandbox(measured: dict[str, Any]) -> Iterator[str]:
    latency, rate, memory = measured["milliseconds"], measured["tests_per_second_and_core"], measured["memory_mb"]
    suite = latency["suite"]["p50"]
    one, bare, fork = (
        f"{latency[name]['p50']:.2f} | {latency[name]['p99']:.2f}" for name in ("ours", "subprocess", "fork")
    )
    rows = (
        f"curate-code, full isolation, per test of a submission | {suite:.2f} |  | {rate['ours']:.0f}",
        f"curate-code, full isolation, submission with one test | {one} | ",
        f"`subprocess`, bare `python -I` | {bare} | {rate['subprocess']:.0f}",
        f"floor: bare `os.fork` of a warm interpreter | {fork} | ",
    )
    yield render_table("one trivial test | p50 ms | p99 ms | tests per second and core", rows)
    yield (
        f"Memory: supervisor {memory['supervisor_rss']:.0f} MB resident, each idle worker {memory['worker_pss']:.0f} MB"
        " (proportional set size of its three processes)."
    )


def render_calls(measured: dict[str, Any]) -> Iterator[str]:
    rows = []
    for name in ("right", "wrong"):
        seconds = measured[name]["cpu_seconds"]
        ours, theirs = seconds["ours"], seconds["theirs"]
        rows.append(f"{measured[name]['programs']:,} {name} programs | {ours:.1f} | {theirs:.1f} | {ours / theirs:.2f}")
    yield render_table("CPU seconds for call suites | curate-code | LiveCodeBench's grader | ratio", rows)
    yield (
        f"The suites of the right programs have {measured['right']['tests']:,} calls. LiveCodeBench's grader runs"
        f" programs in its own process. Verdicts differ on {measured['right']['different']} right and"
        f" {measured['wrong']['different']} wrong programs. Medians of {measured['rounds']} rounds."
    )


def render_front_ends(measured: dict[str, Any]) -> Iterator[str]:
    rows = (
        f"{row['processes']} | {row['front_end_cpu_microseconds']:.0f} | {row['dispatcher_cpu_microseconds']:.0f}"
        for row in measured["rows"]
    )
    yield render_table(
        "`curate serve --processes` | CPU µs per request in the front end | in the dispatcher", rows, "r"
    )
    busiest = measured["rows"][-1]
    front_ends = busiest["processes"] * 1e6 / busiest["front_end_cpu_microseconds"]
    yield (
        f"Requests with one test to {measured['workers']} workers that sleep for {measured['sleep_seconds'] * 1e3:g} ms"
        f" and respond. Computed, not measured: {busiest['processes']} front ends with a core each saturate at"
        f" {front_ends:,.0f} requests per second, and the dispatcher at"
        f" {1e6 / busiest['dispatcher_cpu_microseconds']:,.0f}."
    )


def render_ray(measured: dict[str, Any]) -> Iterator[str]:
    rows = (join_cells(*(f"{value:.3g}" for value in row.values())) for row in measured["weak_scaling"])
    yield render_table("Ray: nodes | workers | per second | share of ideal", rows, "r")
    yield ("Weak scaling with sleeping programs, because all nodes share this machine.")


def render_soak(measured: dict[str, Any]) -> Iterator[str]:
    steady, deaths, restarts = measured["steady"], measured["deaths"], measured["restarts"]
    resident = steady["held"]["supervisor RSS, MB"]
    grown = [name for name, ends in steady["held"].items() if not ends["flat"]]
    mistakes, kills = count_mistakes_and_kills(measured)
    yield (
        f"{steady['runs']:,} mixed runs (right, wrong, hostile) in one sandbox took {steady['seconds'] / 60:.0f} min"
        f". During {deaths['submissions'] + restarts['records']:,} more submissions, {kills} workers, zygotes or"
        f" supervisors were killed: {mistakes} false, lost or duplicate verdicts. Supervisor: {resident['first']:.0f}"
        f" MB resident at the start, {resident['last']:.0f} MB at the end. Of {len(steady['held'])} monitored"
        f" resources, {', '.join(grown) or 'none'} grew."
    )


def count_mistakes_and_kills(soak: dict[str, Any]) -> tuple[int, int]:
    mistakes = sum(len(soak[part]["mistakes"]) for part in ("steady", "deaths", "restarts"))
    return mistakes, sum(sum(soak[part]["kills"].values()) for part in ("deaths", "restarts"))


RENDERERS = {
    "sandbox": render_sandbox,
    "calls": render_calls,
    "ray": render_ray,
    "front_ends": render_front_ends,
    "soak": render_soak,
}
