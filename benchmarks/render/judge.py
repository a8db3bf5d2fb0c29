"""The section "The judge"."""

from typing import Any

from benchmarks.render.table import render_table


def render_sandbox(measured: dict[str, Any]) -> str:
    latency, rate = measured["milliseconds"], measured["tests_per_second_and_core"]
    memory = measured["memory_mb"]
    rows = (
        ("curate-code, full isolation, per test of a submission", {"p50": latency["suite"]["p50"]}, rate["ours"]),
        ("curate-code, full isolation, submission with one test", latency["ours"], None),
        ("`subprocess`, bare `python -I`", latency["subprocess"], rate["subprocess"]),
        ("floor: bare `os.fork` of a warm interpreter", latency["fork"], None),
    )
    return (
        render_table(
            "lr", ("one trivial test", "p50 ms", "p99 ms", "tests per second and core"), map(_format_latency, rows)
        )
        + f"\n\nMemory: supervisor {memory['supervisor_rss']:.0f} MB"
        f" resident, each idle worker {memory['worker_pss']:.0f} MB (proportional set size of its three processes)."
        f" Measured on {measured['machine']}."
    )


def _format_latency(row: tuple[str, dict[str, float], float | None]) -> list[str]:
    name, times, per_second = row
    p99 = f"{times['p99']:.2f}" if "p99" in times else ""
    return [name, f"{times['p50']:.2f}", p99, f"{per_second:.0f}" if per_second else ""]


def render_calls(measured: dict[str, Any]) -> str:
    right, wrong = measured["right"], measured["wrong"]
    rows = []
    for name, part in (("right", right), ("wrong", wrong)):
        ours, theirs = part["cpu_seconds"]["ours"], part["cpu_seconds"]["theirs"]
        rows.append((f"{part['programs']:,} {name} programs", f"{ours:.1f}", f"{theirs:.1f}", f"{ours / theirs:.2f}"))
    return render_table(
        "lr", ("CPU seconds for call suites", "curate-code", "LiveCodeBench's grader", "ratio"), rows
    ) + (
        f"\n\nThe suites of the right programs have {right['tests']:,} calls. LiveCodeBench's grader runs programs in"
        f" its own process. Verdicts differ on {right['different']} right and {wrong['different']} wrong programs."
        f" Medians of {measured['rounds']} rounds. Measured on {measured['machine']}."
    )


def render_front_ends(measured: dict[str, Any]) -> str:
    busiest = measured["rows"][-1]
    front_ends = busiest["processes"] * 1e6 / busiest["front_end_cpu_microseconds"]
    dispatcher = 1e6 / busiest["dispatcher_cpu_microseconds"]
    rows = (
        (row["processes"], *(f"{row[f'{process}_cpu_microseconds']:.0f}" for process in ("front_end", "dispatcher")))
        for row in measured["rows"]
    )
    heads = ("`curate serve --processes`", "CPU µs per request in the front end", "in the dispatcher")
    return render_table("r", heads, rows) + (
        f"\n\nRequests with one test to {measured['workers']} workers that sleep for"
        f" {measured['sleep_seconds'] * 1e3:g} ms and respond. Computed, not measured: {busiest['processes']} front"
        f" ends with a core each saturate at {front_ends:,.0f} requests per second, and the dispatcher at"
        f" {dispatcher:,.0f}. Measured on {measured['machine']}."
    )


def render_ray(measured: dict[str, Any]) -> str:
    first, *others = measured["weak_scaling"][0]
    heads = [f"Ray: {first}", *(name.replace("_", " ") for name in others)]
    rows = ([f"{value:.3g}" for value in row.values()] for row in measured["weak_scaling"])
    return render_table("r", heads, rows) + (
        "\n\nWeak scaling with sleeping programs, because all nodes share this machine."
        f" Measured on {measured['machine']}."
    )


def render_soak(measured: dict[str, Any]) -> str:
    steady, deaths, restarts = measured["steady"], measured["deaths"], measured["restarts"]
    held = steady["held"]
    resident = held["supervisor RSS, MB"]
    grown = [name for name, ends in held.items() if not ends["flat"]]
    kills = sum(deaths["kills"].values()) + sum(restarts["kills"].values())
    mistakes = sum(len(part["mistakes"]) for part in (steady, deaths, restarts))
    submissions = deaths["submissions"] + restarts["records"]
    return (
        f"{steady['runs']:,} mixed runs (right, wrong, hostile) in one sandbox took {steady['seconds'] / 60:.0f} min"
        f". During {submissions:,} more submissions, {kills} workers, zygotes or supervisors were killed:"
        f" {mistakes} false, lost or duplicate verdicts. Supervisor: {resident['first']:.0f} MB resident at the start,"
        f" {resident['last']:.0f} MB at the end. Of {len(held)} monitored resources, {', '.join(grown) or 'none'} grew."
        f" Measured on {measured['machine']}."
    )


RENDERERS = {
    "sandbox": render_sandbox,
    "calls": render_calls,
    "ray": render_ray,
    "front_ends": render_front_ends,
    "soak": render_soak,
}
