"""Workers, judges and zygotes are killed at random moments: every submission gets its right verdict all the same."""

import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from itertools import cycle, islice
from random import Random
from typing import Any

import psutil
from tqdm import tqdm

from benchmarks.soak import flatness, holdings
from benchmarks.soak.family import Family
from benchmarks.soak.mixture import mixture
from benchmarks.soak.tally import Tally
from sandbox import Sandbox

_SUBMISSIONS_PER_VOLLEY = 12  # on average
_APART_SECONDS = 0.02  # at most, before each shot; the workers go on meanwhile
_TOLD = 20  # mistakes


def deaths(submissions: int, workers: int, seed: int) -> dict[str, Any]:
    """A sandbox gives up a request that killed three workers, so no request may be hit that often: a volley hits
    different workers, and the next one waits until all is answered that this one may have hit. A request can then
    find its worker dead and lose the next one, but no third."""
    random, family, tally = Random(seed), Family(psutil.Process()), Tally()
    kinds = cycle(("worker", "zygote", "judge"))
    kills: Counter[str] = Counter()
    hit: set[int] = set()
    mixed = mixture(seed)
    # New workers hold what they have come to need so far; but who starts them may keep nothing of the dead.
    of_supervisor = {name: measure for name, measure in holdings.MEASURES.items() if "supervisor" in name}
    with Sandbox(workers) as box, tqdm(total=submissions, unit=" submissions", mininterval=5) as bar:
        list(tally.judge(box, islice(mixed, 4 * workers)))
        samples = [holdings.sample(family, of_supervisor)]
        for _ in tally.judge(box, islice(mixed, submissions)):
            bar.update()
            hit &= tally.waiting.keys()
            if not hit and random.random() < 1 / _SUBMISSIONS_PER_VOLLEY:
                kills.update(_volley(random, family, kinds))
                hit = set(tally.waiting)
        samples.append(holdings.sample(family, of_supervisor))
    held, left = flatness.judged(samples), family.left()
    return {
        "good": not tally.mistakes and not left and all(ends["flat"] for ends in held.values()),
        "submissions": tally.submissions,
        "kills": dict(kills),
        "mistakes": tally.mistakes[:_TOLD],
        "held": held,
        "left": left,
    }


def _volley(random: Random, family: Family, kinds: Iterator[str]) -> list[str]:
    """Kill one or two workers, or a zygote or judge in place of its worker. Returns what it was."""
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
