"""Kill workers, judges and zygotes at random moments; every submission must get its right verdict nevertheless."""

import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from itertools import cycle, islice
from random import Random
from typing import Any

import psutil
from tqdm import tqdm

from benchmarks.soak.mixture import draw_mixture
from benchmarks.soak.process_family import ProcessFamily
from benchmarks.soak.resources import MEASURES, compare_ends, sample_resources
from benchmarks.soak.tally import Tally
from sandbox import Sandbox

_SUBMISSIONS_PER_VOLLEY = 12  # on average
_MAX_PAUSE_SECONDS = 0.02  # before each kill
_MAX_MISTAKES = 20  # in the result


def kill_workers(submissions: int, workers: int, seed: int) -> dict[str, Any]:
    """Judge this many submissions while processes are killed, and return the measurements.

    A sandbox fails a request that has lost three workers, so no request may lose that many. A volley therefore hits
    different workers, and the next volley waits for the answers to all requests of this one. A request can find its
    worker dead and then lose the next one, but it cannot lose a third.
    """
    random, family, tally = Random(seed), ProcessFamily(psutil.Process()), Tally()
    kinds = cycle(("worker", "zygote", "judge"))
    kills: Counter[str] = Counter()
    hit: set[int] = set()
    mixed = draw_mixture(seed)
    # New workers use less memory than old ones. The supervisor must hold nothing of dead workers.
    measures = {name: measure for name, measure in MEASURES.items() if "supervisor" in name}
    with Sandbox(workers) as box, tqdm(total=submissions, unit=" submissions", mininterval=5) as bar:
        list(tally.judge(box, islice(mixed, 4 * workers)))
        samples = [sample_resources(family, measures)]
        for _ in tally.judge(box, islice(mixed, submissions)):
            bar.update()
            hit &= tally.waiting.keys()
            if not hit and random.random() < 1 / _SUBMISSIONS_PER_VOLLEY:
                kills.update(_volley(random, family, kinds))
                hit = set(tally.waiting)
        samples.append(sample_resources(family, measures))
    held, left = compare_ends(samples), family.leftovers()
    return {
        "good": not tally.mistakes and not left and all(ends["flat"] for ends in held.values()),
        "submissions": tally.submissions,
        "kills": dict(kills),
        "mistakes": tally.mistakes[:_MAX_MISTAKES],
        "held": held,
        "left": left,
    }


def _volley(random: Random, family: ProcessFamily, kinds: Iterator[str]) -> list[str]:
    """Kill one or two workers, or a zygote or judge of each, and return the kinds of the killed processes."""
    workers, judges = family.workers(), family.judges()
    killed = []
    for worker in random.sample(list(workers), min(len(workers), random.choice((1, 2)))):
        time.sleep(random.uniform(0, _MAX_PAUSE_SECONDS))
        kind = next(kinds)
        parts = {"worker": [worker], "zygote": workers[worker], "judge": judges.get(worker, [])}[kind]
        victim = random.choice(parts or [worker])
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.kill()
            killed.append(kind)
    return killed
