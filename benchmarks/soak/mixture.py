"""An endless mixture of right, wrong and hostile submissions, reproducible by seed."""

from collections.abc import Iterator
from random import Random

from benchmarks.soak.hostile import HostileSubmissions
from benchmarks.soak.submission import SoakSubmission
from benchmarks.soak.tasks import all_tasks

_HOSTILE, _FLAWED = 0.25, 0.3  # shares of all submissions


def draw_mixture(seed: int) -> Iterator[SoakSubmission]:
    random = Random(seed)
    hostile, tasks = HostileSubmissions(), all_tasks()
    weights = [task.weight for task in tasks]
    while True:
        share = random.random()
        if share < _HOSTILE:
            yield hostile.draw(random)
        else:
            [task] = random.choices(tasks, weights)
            yield task.draw(random, flawed=share < _HOSTILE + _FLAWED)
