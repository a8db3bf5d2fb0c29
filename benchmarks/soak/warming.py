"""Fill a Sandbox's caches in advance, so that they do not count as growth.

A Sandbox keeps compiled programs, and each worker keeps zygotes for numpy, for compilers and for referees.
"""

from random import Random

from benchmarks.soak.process_family import ProcessFamily
from benchmarks.soak.tally import Tally
from benchmarks.soak.task import SoakTask
from benchmarks.soak.tasks import all_tasks
from sandbox import Program, Sandbox, Suite

_ATTEMPTS = 5
# Delays before a program: while one worker runs it, the next program goes to another worker.
_DELAYS = {
    "guess": "import time\ntime.sleep(0.5)",
    "split, by exit status": "import time\ntime.sleep(0.5)",
    "numpy": "import time\ntime.sleep(0.5)",
    "sum in C++": "#include <unistd.h>\nint slowly = usleep(500000);",
}


def warm_up(box: Sandbox, family: ProcessFamily, tally: Tally) -> None:
    """Judge each solution of each task. Raises RuntimeError if the workers then have different numbers of zygotes."""
    random = Random(0)
    list(tally.judge(box, [submission for task in all_tasks() for submission in task.draw_all(random)]))
    slow = [task for task in all_tasks() if task.name in _DELAYS]
    for _ in range(_ATTEMPTS):
        for task in slow:
            list(box.judge_many([_make_slow(task, random) for _ in range(box.workers)]))
        zygotes = [len(children.zygotes) for children in family.find_workers().values()]
        if len(set(zygotes)) == 1:
            return
    raise RuntimeError(f"after {_ATTEMPTS} rounds, workers have different numbers of zygotes: {zygotes}")


def _make_slow(task: SoakTask, random: Random) -> tuple[Program, Suite]:
    submission = task.draw(random, flawed=False)
    unique = f"{'#' if task.language == 'python' else '//'} {random.getrandbits(64):x}"
    source = f"{_DELAYS[task.name]}\n{submission.program.source}\n{unique}"
    return Program(source, task.language), submission.suite
