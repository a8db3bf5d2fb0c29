"""Markdown tables of the results, in the README and pages of docs/:  python -m benchmarks.render"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks.record import ROOT, load_results
from benchmarks.render import curation, judge, swarm, training
from benchmarks.render.table import render_table

BEGIN, END = "<!-- numbers: rendered by benchmarks/render, do not edit -->", "<!-- end of numbers -->"
Renderer = Callable[[dict[str, Any]], Iterator[str]]
SECTIONS: dict[str, Mapping[str, Renderer]] = {
    "The judge": judge.RENDERERS,
    "Curation": curation.RENDERERS,
    "Training": training.RENDERERS,
    "The swarm": swarm.RENDERERS,
}


def render_results(renderers: Mapping[str, Renderer]) -> Iterator[str]:
    """Yield the tables of each result file, with the machine if it affects them."""
    for name, render in renderers.items():
        measured = load_results(name)
        about = f" Measured on {measured['machine']}." if "machine" in measured else ""
        yield "\n\n".join(render(measured)) + about


def render_numbers() -> Iterator[str]:
    """Yield the sections of docs/numbers.md."""
    for heading, renderers in SECTIONS.items():
        yield f"## {heading}"
        yield from render_results(renderers)


def render_readme() -> Iterator[str]:
    """Yield the README's table."""
    sandbox, soak, strength, dedup, learn = map(load_results, ("sandbox", "soak", "strength", "dedup", "learn"))
    milliseconds = sandbox["milliseconds"]
    mistakes, kills = judge.count_mistakes_and_kills(soak)
    unseen = strength["wrong_programs"]["unseen"]["failing"]
    accepted = {selection: counts["8"] for selection, counts in unseen["let_through"].items()}
    statements = max(dedup, key=int)
    duplicates = dedup[statements]["ours"]
    curve = learn["curves"]["grpo_plus"]["0"]
    real = load_results("asynchrony")["real"]
    sync, asynchronous = (real["runs"][name]["seconds_to_goal"] for name in ("sync", "async-2"))
    bare = milliseconds["subprocess"]["p50"]
    rows = (
        f"one test of a trivial program, fully isolated | {milliseconds['suite']['p50']:.1f} ms"
        f" (a bare `python -I`: {bare:.0f} ms) | {_shorten_machine(sandbox)}",
        f"false, lost or duplicate verdicts in {soak['steady']['runs']:,} runs and {kills} kills | {mistakes}"
        f" | {_shorten_machine(soak)}",
        f"of {unseen['wrong_programs']:,} wrong programs, accepted by a problem's 8 strongest tests"
        f" | {accepted['strongest']:.0f} (by its 8 longest: {accepted['longest']:.0f}) | {_shorten_machine(strength)}",
        f"recall and precision of near-duplicates among {int(statements):,} statements"
        f" | {duplicates['recall']:.4f} and {duplicates['precision']:.4f} | {_shorten_machine(duplicates)}",
        f"held-out pass@1 before and after {curve[-1][0]} steps of `make learn`"
        f" | {curve[0][1]:.2f} and {curve[-1][1]:.2f} | {_shorten_machine(learn)}",
        f"time until pass@1 is {real['goal']}, with an engine that sleeps {1000 * real['sleep_seconds']:.0f} ms for"
        f" each token | synchronous {sync:.0f} s, asynchronous {asynchronous:.0f} s | {_shorten_machine(real)}",
    )
    yield render_table("what | measured | on 2 cores, date", rows, "l")


def _shorten_machine(measured: dict[str, Any]) -> str:
    """Return processor and date of a measurement on two cores."""
    processor, *_, date = measured["machine"].removeprefix("2 cores of ").split(", ")
    return f"{processor.replace('(R)', '').replace(' Processor', '')}, {date}"


PAGES = {
    "README.md": render_readme,
    "docs/numbers.md": render_numbers,
    "docs/concepts/errors-of-evaluations.md": lambda: render_results({"intervals": training.render_coverage}),
}


def render_page(page: str, parts: Callable[[], Iterator[str]]) -> str:
    """Return the text of a page with these parts between its BEGIN and END comments."""
    before, _, rest = page.partition(BEGIN)
    return before + f"{BEGIN}\n" + "\n\n".join(parts()) + f"\n{END}" + rest.partition(END)[2]


def main() -> None:
    for name, parts in PAGES.items():
        page = ROOT / name
        page.write_text(render_page(page.read_text(), parts))
