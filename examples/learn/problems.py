"""Small problems as raw rows for `curate build-dataset`:  python examples/learn/problems.py FOLDER

FOLDER gets two files with their mappings: train.jsonl, and held_out.jsonl, whose tasks have other combinations of kind,
operation and constants. The right program of each task prints the expected outputs.
"""

import builtins
import contextlib
import io
import itertools
import json
import random
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tasks import Task, generate_tasks

TASKS_OF_A_KIND = 96  # at most, so that no kind dominates the set
HELD_OUT = 200  # tasks
TRAIN = 640  # curated problems; demonstrations are sampled from all problems that are not held out
TESTS = 8
SMALLEST, LARGEST, LENGTHS = -20, 40, range(3, 7)
NEAR_A_CONSTANT = 0.3  # share of inputs near a constant of the problem, which expose wrong comparisons
PHRASINGS = {
    "n": ("Read an integer n.", "The input is one integer n.", "You are given an integer n."),
    "a b": ("Read two integers a and b.", "The input is two integers, a and b.", "You are given integers a and b."),
    "xs": ("Read a list xs of integers.", "The input is a list of integers, xs.", "You are given the integers xs."),
}
_MAPPING = """location = "{name}.jsonl"
licence = "apache-2.0"
language = "python"

[fields]
id = "id"
title = "title"
statement = "statement"
tests = "tests"
solutions = "solution"
"""


@dataclass(frozen=True, slots=True)
class Problem:
    task: Task
    phrasing: int

    @property
    def id(self) -> str:
        return f"{self.task.name}/{self.phrasing}"

    @property
    def statement(self) -> str:
        return f"{PHRASINGS[self.task.reads][self.phrasing]} {self.task.ask}"


def make_problems() -> tuple[list[Problem], list[Problem]]:
    """Return the problems for training and those held out, in a fixed random order."""
    rng = random.Random(0)
    chosen: list[Task] = []
    for _, of_a_kind in itertools.groupby(generate_tasks(), key=lambda task: task.name.partition("-")[0]):
        known = list(of_a_kind)
        chosen += rng.sample(known, min(TASKS_OF_A_KIND, len(known)))
    rng.shuffle(chosen)
    held_out = [Problem(task, rng.randrange(3)) for task in chosen[:HELD_OUT]]
    training = [Problem(task, phrasing) for task in chosen[HELD_OUT:] for phrasing in range(3)]
    rng.shuffle(training)
    return training, held_out


def make_row(problem: Problem) -> dict[str, object]:
    """Return a row with the columns that the mapping describes."""
    task = problem.task
    right = task.make_program(task.right)
    tests = [{"input": line, "output": run_program(right, line)} for line in _make_inputs(task)]
    return {
        "id": problem.id,
        "title": task.name,
        "statement": problem.statement,
        "tests": json.dumps(tests),
        "solution": right + "\n",
    }


def _make_inputs(task: Task) -> list[str]:
    """Return distinct lines of input.

    The first two are the same for all tasks that read the same input, so their expected outputs distinguish tasks.
    """
    shared, own = random.Random(task.reads), random.Random(task.name)
    lines = dict.fromkeys(_make_line(task.reads, shared, ()) for _ in range(2))
    while len(lines) < TESTS:
        lines[_make_line(task.reads, own, task.constants)] = None
    return list(lines)


def _make_line(reads: str, rng: random.Random, constants: tuple[int, ...]) -> str:
    length = {"n": 1, "a b": 2}.get(reads) or rng.choice(LENGTHS)
    numbers = [_make_number(rng, constants) for _ in range(length)]
    if reads == "a b" and constants and rng.random() < NEAR_A_CONSTANT:
        numbers[1] = numbers[0] - rng.choice(constants) + rng.randint(-1, 1)  # nearly equal sides of a comparison
    return " ".join(map(str, numbers)) + "\n"


def _make_number(rng: random.Random, constants: tuple[int, ...]) -> int:
    if constants and rng.random() < NEAR_A_CONSTANT:
        return rng.choice(constants) + rng.randint(-1, 1)
    return rng.randint(SMALLEST, LARGEST)


def run_program(program: str, stdin: str) -> str:
    """Run a trusted program without isolation, and return its output."""
    lines = iter(stdin.splitlines())
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(program, {"__builtins__": {**vars(builtins), "input": lambda: next(lines)}})
    return output.getvalue()


def write(folder: Path, **sets: Iterable[dict[str, object]]) -> None:
    """Write each set of rows as NAME.jsonl, with its mapping NAME.toml."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in sets.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / f"{name}.toml").write_text(_MAPPING.format(name=name))


if __name__ == "__main__":
    training, held_out = make_problems()
    write(Path(sys.argv[1]), train=map(make_row, training[:TRAIN]), held_out=map(make_row, held_out))
