"""The demonstrations of the warm-up, before the model learns from rewards.

30% are right, 45% make a mistake specific to the task, and 25% have a random change. A model that imitates them solves
a third of the problems, and most problems in one of eight attempts, so rewards can reinforce right completions.
"""

import random
import re
from collections.abc import Sequence

from problems import Problem
from tasks import CONSTANTS, Task

RIGHT, SAME_MISTAKE = 0.3, 0.45
_CHANGEABLE = re.compile(r"\b[2-9]\b| [-+*%<>] |\b(?:max|min|sum|len)\b")
_OTHERS = ([str(c) for c in CONSTANTS], [f" {sign} " for sign in "+-*%"], [" < ", " > "], ["max", "min", "sum", "len"])


def make_demonstration(problem: Problem, rng: random.Random) -> str:
    return format_completion(problem.task.make_program(choose_body(problem.task, rng)))


def format_completion(program: str) -> str:
    return f"```python\n{program}\n```"


def list_texts(problems: Sequence[Problem]) -> list[str]:
    """Return all statements and completions without random changes, for training a tokenizer."""
    statements = [problem.statement for problem in problems]
    return statements + [
        format_completion(p.task.make_program(body)) for p in problems for body in (p.task.right, *p.task.wrong)
    ]


def choose_body(task: Task, rng: random.Random, *, right: float = RIGHT) -> str:
    """Return the lines of a program after its first line, which reads the input.

    right: probability of the right lines; the two kinds of mistakes keep their proportion
    """
    if rng.random() < right:
        return task.right
    if rng.random() < SAME_MISTAKE / (1 - RIGHT):
        return random.Random(task.name).choice(task.wrong)
    return _change(task.right, rng)


def _change(body: str, rng: random.Random) -> str:
    """Replace one constant, sign or function name with another one."""
    match = rng.choice(list(_CHANGEABLE.finditer(body)))
    kind = next(kind for kind in _OTHERS if match[0] in kind)
    other = rng.choice([word for word in kind if word != match[0]])
    return body[: match.start()] + other + body[match.end() :]
