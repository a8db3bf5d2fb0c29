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

from benchmarks.soak import flatness, resources
from benchmarks.soak.mixture import mixture
from benchmarks.soak.process_family import ProcessFamily
from benchmarks.soak.tally import Tally
from sandbox import Sandbox

_SUBMISSIONS_PER_VOLLEY = 12  # on average
_APART_SECONDS = 0.02  # maximum pause before each kill
_REPORTED = 20  # maximum number of mistakes in the result


def kill_workers(submissions: int, workers: int, seed: int) -> dict[str, Any]:
    """Judge this many submissions while processes are killed, and return the measurements. A sandbox fails a request
    that has lost three workers, so no request may be hit that often. A volley therefore hits different workers, and the
    next volley waits until every request that this one may have hit is answered. A request can find its worker dead and
    then lose the next one, but it cannot lose a third.
    """
    random, family, tally = Random(seed), ProcessFamily(psutil.Process()), Tally()
    kinds = cycle(("worker", "zygote", "judge"))
    kills: Counter[str] = Counter()
    hit: set[int] = set()
    mixed = mixture(seed)
    # New workers use less memory than old ones, so only the supervisor is compared: it must hold nothing of dead
    # workers.
    of_supervisor = {name: measure for name, measure in resources.MEASURES.items() if "supervisor" in name}
    with Sandbox(workers) as box, tqdm(total=submissions, unit=" submissions", mininterval=5) as bar:
        list(tally.judge(box, islice(mixed, 4 * workers)))
        samples = [resources.sample(family, of_supervisor)]
        for _ in tally.judge(box, islice(mixed, submissions)):
            bar.update()
            hit &= tally.waiting.keys()
            if not hit and random.random() < 1 / _SUBMISSIONS_PER_VOLLEY:
                kills.update(_volley(random, family, kinds))
                hit = set(tally.waiting)
        samples.append(resources.sample(family, of_supervisor))
    held, left = flatness.judged(samples), family.left()
    return {
        "good": not tally.mistakes and not left and all(ends["flat"] for ends in held.values()),
        "submissions": tally.submissions,
        "kills": dict(kills),
        "mistakes": tally.mistakes[:_REPORTED],
        "held": held,
        "left": left,
    }


def _volley(random: Random, family: ProcessFamily, kinds: Iterator[str]) -> list[str]:
    """Kill one or two workers, or a zygote or judge in place of a worker, and return the kinds of the killed
    processes."""
    workers, judges = family.workers(), family.judges()
    shot = []
    for worker in random.sample(list(workers), min(len(workers), random.choice((1, 2)))):
        time.sleep(random.uniform(0, _APART_SECONDS))
        kind = next(kinds)
        parts = {"worker": [worker], "zygote": workers[worker], "judge": judges.get(worker, [])}[kind]
        victim = random.choice(parts or [worker])
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.kill()
            shot.append(kind)
    return shot
