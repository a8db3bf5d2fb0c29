"""Rounds of mixed submissions in a single Sandbox, which is idle while its resources are sampled.

The caches are filled first, so that they do not count as growth: compiled programs, and the zygotes of each worker for
numpy, for compilers and for referees.
"""

import time
from collections.abc import Iterator
from random import Random
from typing import Any

import psutil
from tqdm import tqdm

from benchmarks.soak.mixture import generate_mixture
from benchmarks.soak.process_family import ProcessFamily
from benchmarks.soak.resources import compare_first_and_last, sample_resources
from benchmarks.soak.submission import SoakSubmission, Tally
from benchmarks.soak.task import SoakTask
from benchmarks.soak.tasks import all_tasks
from sandbox import Program, Sandbox, Suite

_RUNS_PER_ROUND = 2000
_MIN_ROUNDS, _MAX_ROUNDS = 12, 100
_MAX_MISTAKES = 20  # in the result
_WARM_UP_ROUNDS = 5
# Delays before a program: while one worker runs it, the next program goes to another worker.
_DELAYS = {
    "guess": "import time\ntime.sleep(0.5)",
    "split, by exit status": "import time\ntime.sleep(0.5)",
    "numpy": "import time\ntime.sleep(0.5)",
    "sum in C++": "#include <unistd.h>\nint slowly = usleep(500000);",
}


def judge_steadily(runs: int, workers: int, seed: int) -> dict[str, Any]:
    """Judge submissions with about this many cases, and return the measurements."""
    family, tally, submissions = ProcessFamily(psutil.Process()), Tally(), generate_mixture(seed)
    rounds = min(max(runs // _RUNS_PER_ROUND, _MIN_ROUNDS), _MAX_ROUNDS)
    samples = []
    with Sandbox(workers) as box, tqdm(total=runs, unit=" runs", mininterval=5) as bar:
        warm_up(box, family, tally)
        at_first = set(family.list_members())
        started = time.perf_counter()
        for number in range(1, rounds + 1):
            for submission in tally.judge(box, _take_runs(submissions, runs * number // rounds - tally.runs)):
                bar.update(len(submission.expected_verdicts))
            samples.append(sample_resources(family))
        seconds = time.perf_counter() - started
        replaced = len(at_first - set(family.list_members()))
    held, left = compare_first_and_last(samples), family.find_leftovers()
    flat = replaced == 0 and all(ends["flat"] for ends in held.values())
    return {
        "good": flat and not tally.mistakes and not left,
        "runs": tally.runs,
        "submissions": tally.submissions,
        "verdicts": dict(tally.verdicts.most_common()),
        "mistakes": tally.mistakes[:_MAX_MISTAKES],
        "seconds": round(seconds, 1),
        "held": held,
        "processes_replaced": replaced,  # workers and zygotes; no program may kill one
        "left": left,
    }


def _take_runs(submissions: Iterator[SoakSubmission], runs: int) -> Iterator[SoakSubmission]:
    """Yield submissions with at least this many cases together."""
    while runs > 0:
        submission = next(submissions)
        runs -= len(submission.expected_verdicts)
        yield submission


def warm_up(box: Sandbox, family: ProcessFamily, tally: Tally) -> None:
    """Judge each solution of each task. Raises RuntimeError if the workers then have different numbers of zygotes."""
    random = Random(0)
    list(tally.judge(box, [submission for task in all_tasks() for submission in task.sample_all(random)]))
    slow = [task for task in all_tasks() if task.name in _DELAYS]
    for _ in range(_WARM_UP_ROUNDS):
        for task in slow:
            list(box.judge_many([_make_slow(task, random) for _ in range(box.workers)]))
        zygotes = [len(children.zygotes) for children in family.find_workers().values()]
        if len(set(zygotes)) == 1:
            return
    raise RuntimeError(f"after {_WARM_UP_ROUNDS} rounds, workers have different numbers of zygotes: {zygotes}")


def _make_slow(task: SoakTask, random: Random) -> tuple[Program, Suite]:
    submission = task.sample(random, flawed=False)
    unique = f"{'#' if task.language == 'python' else '//'} {random.getrandbits(64):x}"
    source = f"{_DELAYS[task.name]}\n{submission.program.source}\n{unique}"
    return Program(source, task.language), submission.suite
