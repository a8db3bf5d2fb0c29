"""Workers and zygotes are killed at random moments: every submission gets its right verdict all the same, once."""

import time
from collections import Counter
from collections.abc import Iterator
from itertools import cycle, islice
from random import Random
from typing import Any

import psutil
from tqdm import tqdm

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
    kinds = cycle(("worker", "zygote"))
    kills: Counter[str] = Counter()
    hit: set[int] = set()
    with Sandbox(workers) as box, tqdm(total=submissions, unit=" submissions", mininterval=1) as bar:
        for _ in tally.judge(box, islice(mixture(seed), submissions)):
            bar.update()
            hit &= tally.waiting.keys()
            if not hit and random.random() < 1 / _SUBMISSIONS_PER_VOLLEY:
                kills.update(_volley(random, family, kinds))
                hit = set(tally.waiting)
    left = family.left()
    return {
        "good": not tally.mistakes and not left,
        "submissions": tally.submissions,
        "kills": dict(kills),
        "mistakes": tally.mistakes[:_TOLD],
        "left": left,
    }


def _volley(random: Random, family: Family, kinds: Iterator[str]) -> list[str]:
    """Kill one or two workers, or a zygote in place of its worker. Returns what it was."""
    workers, zygotes = family.workers_and_zygotes()
    victims = {worker: [zygote for zygote in zygotes if zygote.ppid() == worker.pid] for worker in workers}
    shot = []
    for worker in random.sample(workers, min(len(workers), random.choice((1, 2)))):
        time.sleep(random.uniform(0, _APART_SECONDS))
        kind = next(kinds) if victims[worker] else "worker"
        victim = worker if kind == "worker" else random.choice(victims[worker])
        if victim.status() != psutil.STATUS_ZOMBIE:  # the last volley's, not missed yet
            victim.kill()
            shot.append(kind)
    return shot
