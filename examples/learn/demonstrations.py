"""What the model is shown before it learns from rewards: a teacher who is right now and then.

30 % of the demonstrations are right, 45 % make a mistake that is always the same for the same task, 25 % have
something changed at random. A model that imitates them solves a third of the problems, and most of them in one of
eight tries: there is something to be found, and a reward that finds it.
"""

import random
import re
from collections.abc import Sequence

from problems import Problem
from tasks import CONSTANTS, Task

RIGHT, SAME_MISTAKE = 0.3, 0.45
_CHANGEABLE = re.compile(r"\b[2-9]\b| [-+*%<>] |\b(?:max|min|sum|len)\b")
_OTHERS = ([str(c) for c in CONSTANTS], [f" {sign} " for sign in "+-*%"], [" < ", " > "], ["max", "min", "sum", "len"])


def demonstration(problem: Problem, rng: random.Random) -> str:
    """An answer as somebody gives it who is asked for a program."""
    return answer(problem.task.program(body(problem.task, rng)))


def answer(program: str) -> str:
    return f"```python\n{program}\n```"


def texts(problems: Sequence[Problem]) -> list[str]:
    """All that is said, without changes at random: for a tokenizer to learn from."""
    said = [problem.statement for problem in problems]
    return said + [answer(p.task.program(body)) for p in problems for body in (p.task.right, *p.task.wrong)]


def body(task: Task, rng: random.Random, *, right: float = RIGHT) -> str:
    """What follows the reading of the input, right so often; what is not right is a mistake of one kind or the other
    as often as everywhere."""
    if rng.random() < right:
        return task.right
    if rng.random() < SAME_MISTAKE / (1 - RIGHT):
        return random.Random(task.name).choice(task.wrong)
    return _changed(task.right, rng)


def _changed(body: str, rng: random.Random) -> str:
    """One constant, sign or name is another of its kind."""
    found = rng.choice(list(_CHANGEABLE.finditer(body)))
    kind = next(kind for kind in _OTHERS if found[0] in kind)
    other = rng.choice([word for word in kind if word != found[0]])
    return body[: found.start()] + other + body[found.end() :]
