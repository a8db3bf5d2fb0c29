"""Markdown tables of the results, in the README and pages of docs/:  python -m benchmarks.render"""

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.record import ROOT, load_results
from benchmarks.render import curation, judge, swarm, training
from benchmarks.render.evaluation import render_coverage

BEGIN, END = "<!-- numbers: rendered by benchmarks/render, do not edit -->", "<!-- end of numbers -->"
SECTIONS = {
    "The judge": judge.RENDERERS,
    "Curation": curation.RENDERERS,
    "Training": training.RENDERERS,
    "The swarm": swarm.RENDERERS,
}


def render_numbers() -> Iterator[str]:
    """Yield the sections of docs/numbers.md."""
    for heading, renderers in SECTIONS.items():
        yield f"## {heading}"
        for name, render in renderers.items():
            yield render(load_results(name))


def render_readme() -> Iterator[str]:
    """Yield the README's table."""
    sandbox, soak, strength, dedup, learn = map(load_results, ("sandbox", "soak", "strength", "dedup", "learn"))
    milliseconds = sandbox["milliseconds"]
    mistakes = sum(len(soak[part]["mistakes"]) for part in ("steady", "deaths", "restarts"))
    kills = sum(sum(soak[part]["kills"].values()) for part in ("deaths", "restarts"))
    unseen = strength["wrong_programs"]["unseen"]["failing"]
    let_through = unseen["let_through"]
    statements = max(dedup, key=int)
    duplicates = dedup[statements]["ours"]
    curve = learn["curves"]["grpo_plus"]["0"]
    real = load_results("asynchrony")["real"]
    to_goal = {name: real["runs"][name]["seconds_to_goal"] for name in ("sync", "async-2")}
    rows: tuple[tuple[str, str, dict[str, Any]], ...] = (
        (
            "one test of a trivial program, fully isolated",
            f"{milliseconds['suite']['p50']:.1f} ms (a bare `python -I`: {milliseconds['subprocess']['p50']:.0f} ms)",
            sandbox,
        ),
        (
            f"false, lost or duplicate verdicts in {soak['steady']['runs']:,} runs and {kills} kills",
            f"{mistakes}",
            soak,
        ),
        (
            f"of {unseen['wrong_programs']:,} wrong programs, accepted by a problem's 8 strongest tests",
            f"{let_through['strongest']['8']:.0f} (by its 8 longest: {let_through['longest']['8']:.0f})",
            strength,
        ),
        (
            f"recall and precision of near-duplicates among {int(statements):,} statements",
            f"{duplicates['recall']:.4f} and {duplicates['precision']:.4f}",
            duplicates,
        ),
        (
            f"held-out pass@1 before and after {curve[-1][0]} steps of `make learn`",
            f"{curve[0][1]:.2f} and {curve[-1][1]:.2f}",
            learn,
        ),
        (
            f"time until pass@1 is {real['goal']}, with an engine that sleeps {1000 * real['sleep_seconds']:.0f} ms for"
            " each token",
            f"synchronous {to_goal['sync']:.0f} s, asynchronous {to_goal['async-2']:.0f} s",
            real,
        ),
    )
    lines = ["| what | measured | on 2 cores, date |", "|---|---|---|"]
    for what, measured, results in rows:
        processor, *_, date = results["machine"].removeprefix("2 cores of ").split(", ")
        lines.append(f"| {what} | {measured} | {processor.replace('(R)', '').replace(' Processor', '')}, {date} |")
    yield "\n".join(lines)


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "README.md": render_readme,
    "docs/numbers.md": render_numbers,
    "docs/concepts/errors-of-evaluations.md": render_coverage,
}


def render_page(page: str, parts: Callable[[], Iterator[str]]) -> str:
    """Return the text of a page with these parts between its BEGIN and END comments."""
    before, _, rest = page.partition(BEGIN)
    return before + f"{BEGIN}\n" + "\n\n".join(parts()) + f"\n{END}" + rest.partition(END)[2]


def main() -> None:
    for name, parts in PAGES.items():
        page = ROOT / name
        page.write_text(render_page(page.read_text(), parts))
