"""The same problems answered by somebody who thinks aloud first: longer answers, and the longer, the more often right.

Thinking is to repeat what is asked, up to four times. What is said three or four times is cut off at the length that
training allows. That is where the ingredients of GRPO+ could matter; see ablations.sh.
"""

import random
from collections.abc import Sequence

import demonstrations
from problems import Problem

TIMES = (0.15, 0.3, 0.25, 0.15, 0.15)  # shares of answers that repeat the question so often, from not at all
RIGHT = (0.15, 0.3, 0.4, 0.5, 0.6)  # how often those are right


def demonstration(problem: Problem, rng: random.Random) -> str:
    times = rng.choices(range(len(TIMES)), TIMES)[0]
    body = demonstrations.body(problem.task, rng, right=RIGHT[times])
    return _thought(problem, times) + demonstrations.answer(problem.task.program(body))


def texts(problems: Sequence[Problem]) -> list[str]:
    """All that is said: for a tokenizer to learn from."""
    return [*demonstrations.texts(problems), *(_thought(problem, 1) for problem in problems)]


def _thought(problem: Problem, times: int) -> str:
    said = times * (problem.task.ask + "\n")
    return f"<think>\n{said}</think>\n" if said else ""
