"""Problems whose solutions need a chain of thought:  python examples/learn/aloud.py FOLDER

"Read n. Go 5 words on from cat. Print the first letter of where you arrive, then n." The model learns the order of the
words from demonstrations. A chain of thought counts from word to word; a completion without one guesses a word. More
steps need a longer chain, so a length limit truncates completions about distant words. See benchmarks/ingredients.py.
"""

import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from problems import write

WORDS = (
    "ant ash bay bee bow box bud bus cap car cat cow cup dog ear eel egg elf elm eye fan fig fir fox gem gum hat hen "
    "ice ink ivy jam jar key kit leg lid log map mat mud net nut oak oar oil owl pan pea pen pie pig pin pot rat rug "
    "saw sea sky sun tea toe toy van web yak zoo"
).split()
FARTHEST = 16
HELD_OUT = 200  # of 1,072 problems
TESTS = 6
THINKS, SLIPS = 0.4, 0.15  # share of demonstrations that think, share of thoughts that miscount by one word


@dataclass(frozen=True, slots=True)
class Problem:
    steps: int
    start: int  # index into WORDS

    @property
    def statement(self) -> str:
        asked = f"Go {self.steps} words on from {WORDS[self.start]}"
        return f"Read n. {asked}. Print the first letter of where you arrive, then n."

    def find_word(self, steps: int) -> str:
        return WORDS[(self.start + steps) % len(WORDS)]


def make_problems() -> tuple[list[Problem], list[Problem]]:
    """Return the problems for training and those held out, in a fixed random order."""
    shuffled = [Problem(steps, start) for steps in range(1, FARTHEST + 1) for start in range(len(WORDS))]
    random.Random(0).shuffle(shuffled)
    return shuffled[HELD_OUT:], shuffled[:HELD_OUT]


def make_demonstration(problem: Problem, rng: random.Random) -> str:
    if rng.random() >= THINKS:
        return make_program(problem.find_word(rng.randint(1, FARTHEST)))
    steps = problem.steps + (rng.choice((-1, 1)) if rng.random() < SLIPS else 0)
    return make_thought(problem, steps) + make_program(problem.find_word(steps))


def make_thought(problem: Problem, steps: int) -> str:
    counted = "".join(f"{step} {problem.find_word(step)}\n" for step in range(1, steps + 1))
    return f"<think>\n{counted}</think>\n"


def make_program(word: str) -> str:
    return f'```python\nprint("{word[0]}", input())\n```'


def list_texts(problems: Sequence[Problem]) -> list[str]:
    """Return all statements and right completions, for training a tokenizer."""
    statements = [problem.statement for problem in problems]
    return statements + [make_thought(p, p.steps) + make_program(p.find_word(p.steps)) for p in problems]


def make_row(problem: Problem) -> dict[str, object]:
    """Convert a problem to a raw row, whose columns the mapping of the dataset names."""
    right = problem.find_word(problem.steps)[0]
    numbers = random.Random(problem.statement).sample(range(100), TESTS)
    tests = [{"input": f"{n}\n", "output": f"{right} {n}\n"} for n in numbers]
    return {
        "id": f"{WORDS[problem.start]}-{problem.steps}",
        "title": f"{problem.steps} on from {WORDS[problem.start]}",
        "statement": problem.statement,
        "tests": json.dumps(tests),
        "solution": f'print("{right}", input())\n',
    }


if __name__ == "__main__":
    training, held_out = make_problems()
    write(Path(sys.argv[1]), train=map(make_row, training), held_out=map(make_row, held_out))
