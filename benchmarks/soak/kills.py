"""Kills of workers, judges and zygotes at random moments. Each submission must still get its right verdict."""

import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from itertools import cycle, islice
from random import Random
from typing import Any

import psutil
from tqdm import tqdm

from benchmarks.soak.mixture import generate_mixture
from benchmarks.soak.process_family import ProcessFamily
from benchmarks.soak.resources import MEASURES, compare_first_and_last, sample_resources
from benchmarks.soak.submission import Tally
from sandbox import Sandbox

_SUBMISSIONS_PER_VOLLEY = 12  # on average
_MAX_PAUSE_SECONDS = 0.02  # before each kill
_MAX_MISTAKES = 20  # listed in the result


def kill_workers(submissions: int, workers: int, seed: int) -> dict[str, Any]:
    """Judge this many submissions while processes are killed, and return the measurements.

    A sandbox fails a request that has lost three workers. A volley therefore hits different workers, and the next one
    waits for the responses to all requests of this one: no request then loses more than two workers.
    """
    random, family, tally = Random(seed), ProcessFamily(psutil.Process()), Tally()
    kinds = cycle(("worker", "zygote", "judge"))
    kills: Counter[str] = Counter()
    hit: set[int] = set()
    mixed = generate_mixture(seed)
    # New workers use less memory than old ones, so only the supervisor is measured.
    measures = {name: measure for name, measure in MEASURES.items() if "supervisor" in name}
    with Sandbox(workers) as box, tqdm(total=submissions, unit=" submissions", mininterval=5) as bar:
        list(tally.judge(box, islice(mixed, 4 * workers)))
        samples = [sample_resources(family, measures)]
        for _ in tally.judge(box, islice(mixed, submissions)):
            bar.update()
            hit &= tally.waiting.keys()
            if not hit and random.random() < 1 / _SUBMISSIONS_PER_VOLLEY:
                kills.update(_kill_volley(random, family, kinds))
                hit = set(tally.waiting)
        samples.append(sample_resources(family, measures))
    held, left = compare_first_and_last(samples), family.find_leftovers()
    return {
        "good": not tally.mistakes and not left and all(ends["flat"] for ends in held.values()),
        "submissions": tally.submissions,
        "kills": dict(kills),
        "mistakes": tally.mistakes[:_MAX_MISTAKES],
        "held": held,
        "left": left,
    }


def _kill_volley(random: Random, family: ProcessFamily, kinds: Iterator[str]) -> list[str]:
    """Kill one or two workers, or a zygote or judge of each, and return the kinds of the killed processes."""
    workers = family.find_workers()
    killed = []
    for worker in random.sample(list(workers), min(len(workers), random.choice((1, 2)))):
        time.sleep(random.uniform(0, _MAX_PAUSE_SECONDS))
        kind = next(kinds)
        children = workers[worker]
        victims = {"worker": [worker], "zygote": children.zygotes, "judge": children.judges}[kind]
        victim = random.choice(victims or [worker])
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.kill()
            killed.append(kind)
    return killed
