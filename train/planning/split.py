"""How to split GPUs between learner and engines: every sensible split is simulated."""

from collections.abc import Iterator
from dataclasses import dataclass

from train.planning.rates import Gpu, ModelSize, engine_rates, learner_rates
from train.planning.simulate import ONE_OFF, SYNC, Layout, Outcome, Way, Workload, simulate

WAYS = (SYNC, ONE_OFF, Way("async", 1), Way("async", 2), Way("async", 4), Way("async", 8))
_SHARES = (1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8)  # of the GPUs, for the learner


@dataclass(frozen=True, slots=True)
class Cluster:
    """The GPUs of a run.

    tensor_parallel     GPUs of one engine
    least_learner_gpus  the learner's state does not fit on fewer
    learner_multiple    the number of the learner's GPUs is a multiple of this
    """

    gpu: Gpu
    gpus: int
    tensor_parallel: int = 1
    least_learner_gpus: int = 1
    learner_multiple: int = 1


@dataclass(frozen=True, slots=True)
class Split:
    """A way of training and a division of the GPUs, with what the simulation measured."""

    way: Way
    learner_gpus: int
    engines: int
    outcome: Outcome


def best_split(way: Way, model: ModelSize, cluster: Cluster, workload: Workload, *, steps: int = 6) -> Split | None:
    """Return the fastest split, or None if the GPUs are too few for this way."""
    splits = [
        Split(way, learner_gpus, engines, _simulated(way, model, cluster, workload, learner_gpus, engines, steps))
        for learner_gpus, engines in divisions(way, cluster)
    ]
    return max(splits, key=lambda split: split.outcome.tokens_per_second, default=None)


def divisions(way: Way, cluster: Cluster) -> Iterator[tuple[int, int]]:
    """Yield (GPUs of the learner, number of engines)."""
    multiple = cluster.learner_multiple
    if way.pipeline == "sync":  # both use all of them, in turns
        if cluster.gpus >= max(cluster.least_learner_gpus, cluster.tensor_parallel):
            yield cluster.gpus // multiple * multiple, cluster.gpus // cluster.tensor_parallel
        return
    wanted = (max(round(cluster.gpus * share), cluster.least_learner_gpus) for share in _SHARES)
    numbers = {-(-number // multiple) * multiple for number in wanted}
    for learner_gpus in sorted(numbers):
        engines = (cluster.gpus - learner_gpus) // cluster.tensor_parallel
        if engines > 0:
            yield learner_gpus, engines


def _simulated(
    way: Way, model: ModelSize, cluster: Cluster, workload: Workload, learner_gpus: int, engines: int, steps: int
) -> Outcome:
    layout = Layout(
        engines,
        engine_rates(model, cluster.gpu, gpus=cluster.tensor_parallel),
        learner_rates(model, cluster.gpu, gpus=learner_gpus),
    )
    return simulate(way, workload, layout, steps=steps)
