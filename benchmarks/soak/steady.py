"""Judge rounds of mixed submissions in a single Sandbox, which is idle while its resources are sampled."""

import time
from collections.abc import Iterator
from typing import Any

import psutil
from tqdm import tqdm

from benchmarks.soak.mixture import draw_mixture
from benchmarks.soak.process_family import ProcessFamily
from benchmarks.soak.resources import compare_first_and_last, sample_resources
from benchmarks.soak.submission import SoakSubmission
from benchmarks.soak.tally import Tally
from benchmarks.soak.warming import warm_up
from sandbox import Sandbox

_RUNS_PER_ROUND = 2000
_MIN_ROUNDS, _MAX_ROUNDS = 12, 100
_MAX_MISTAKES = 20  # in the result


def judge_steadily(runs: int, workers: int, seed: int) -> dict[str, Any]:
    """Make about this many runs and return the measurements."""
    family, tally, submissions = ProcessFamily(psutil.Process()), Tally(), draw_mixture(seed)
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
    """Yield submissions of at least this many runs together."""
    while runs > 0:
        submission = next(submissions)
        runs -= len(submission.expected_verdicts)
        yield submission
