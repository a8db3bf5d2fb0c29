"""Judge many rounds of mixed submissions in a single Sandbox; this is the long part of the soak.

Between two rounds the Sandbox is idle, so that its resources can be counted exactly.
"""

import time
from collections.abc import Iterator
from typing import Any

import psutil
from tqdm import tqdm

from benchmarks.soak import flatness, resources
from benchmarks.soak.mixture import mixture
from benchmarks.soak.process_family import ProcessFamily
from benchmarks.soak.submission import SoakSubmission
from benchmarks.soak.tally import Tally
from benchmarks.soak.warming import warm_up
from sandbox import Sandbox

_RUNS_PER_ROUND = 2000
_MIN_ROUNDS, _MAX_ROUNDS = 12, 100
_REPORTED = 20  # mistakes


def steady(runs: int, workers: int, seed: int) -> dict[str, Any]:
    """Make about this many runs and return the measurements; `good`: all requirements are met."""
    family, tally, submissions = ProcessFamily(psutil.Process()), Tally(), mixture(seed)
    rounds = min(max(runs // _RUNS_PER_ROUND, _MIN_ROUNDS), _MAX_ROUNDS)
    samples, machine = [], []
    with Sandbox(workers) as box, tqdm(total=runs, unit=" runs", mininterval=5) as bar:
        warm_up(box, family, tally)
        at_first = set(family.members())
        started = time.perf_counter()
        for number in range(1, rounds + 1):
            for submission in tally.judge(box, _worth(submissions, runs * number // rounds - tally.runs)):
                bar.update(len(submission.expected_verdicts))
            samples.append(resources.sample(family))
            machine.append(resources.machine())
        seconds = time.perf_counter() - started
        replaced = len(at_first - set(family.members()))
    held, left = flatness.judged(samples), family.left()
    flat = replaced == 0 and all(ends["flat"] for ends in held.values())
    return {
        "good": flat and not tally.mistakes and not left,
        "runs": tally.runs,
        "submissions": tally.submissions,
        "verdicts": dict(tally.verdicts.most_common()),
        "mistakes": tally.mistakes[:_REPORTED],
        "seconds": round(seconds, 1),
        "runs_per_second_and_core": round(tally.runs / seconds / workers, 1),
        "samples": len(samples),
        "held": held,
        "machine": flatness.quarters(machine),
        "processes_replaced": replaced,  # workers and zygotes, none of which a program may end
        "left": left,
    }


def _worth(submissions: Iterator[SoakSubmission], runs: int) -> Iterator[SoakSubmission]:
    """Yield submissions until they amount to this many runs."""
    while runs > 0:
        submission = next(submissions)
        runs -= len(submission.expected_verdicts)
        yield submission
