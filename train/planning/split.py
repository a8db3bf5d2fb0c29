"""How to split GPUs between learner and engines: every sensible split is simulated."""

from collections.abc import Iterator
from dataclasses import dataclass

from train.planning.simulate import ONE_OFF, SYNC, Layout, SimulationResult, TrainingMode, Workload, simulate
from train.planning.timings import Gpu, ModelSize, estimate_engine_timings, estimate_learner_timings

MODES = (
    SYNC,
    ONE_OFF,
    TrainingMode("async", 1),
    TrainingMode("async", 2),
    TrainingMode("async", 4),
    TrainingMode("async", 8),
)
_SHARES = (1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8)  # of the GPUs, for the learner


@dataclass(frozen=True, slots=True)
class GpuCluster:
    """The GPUs of a run.

    tensor_parallel   GPUs of one engine
    min_learner_gpus  the learner's state does not fit on fewer
    learner_multiple  the number of the learner's GPUs is a multiple of this
    """

    gpu: Gpu
    gpus: int
    tensor_parallel: int = 1
    min_learner_gpus: int = 1
    learner_multiple: int = 1


@dataclass(frozen=True, slots=True)
class GpuSplit:
    """A way of training and a division of the GPUs, with what the simulation measured."""

    mode: TrainingMode
    learner_gpus: int
    engines: int
    result: SimulationResult


def best_split(
    mode: TrainingMode, model: ModelSize, cluster: GpuCluster, workload: Workload, *, steps: int = 6
) -> GpuSplit | None:
    """Return the fastest split, or None if the GPUs are too few for this way."""
    splits = [
        GpuSplit(mode, learner_gpus, engines, _simulated(mode, model, cluster, workload, learner_gpus, engines, steps))
        for learner_gpus, engines in candidate_splits(mode, cluster)
    ]
    return max(splits, key=lambda split: split.result.tokens_per_second, default=None)


def candidate_splits(mode: TrainingMode, cluster: GpuCluster) -> Iterator[tuple[int, int]]:
    """Yield (GPUs of the learner, number of engines)."""
    multiple = cluster.learner_multiple
    if mode.pipeline == "sync":  # both use all of them, in turns
        if cluster.gpus >= max(cluster.min_learner_gpus, cluster.tensor_parallel):
            yield cluster.gpus // multiple * multiple, cluster.gpus // cluster.tensor_parallel
        return
    wanted = (max(round(cluster.gpus * share), cluster.min_learner_gpus) for share in _SHARES)
    numbers = {-(-number // multiple) * multiple for number in wanted}
    for learner_gpus in sorted(numbers):
        engines = (cluster.gpus - learner_gpus) // cluster.tensor_parallel
        if engines > 0:
            yield learner_gpus, engines


def _simulated(
    way: TrainingMode,
    model: ModelSize,
    cluster: GpuCluster,
    workload: Workload,
    learner_gpus: int,
    engines: int,
    steps: int,
) -> SimulationResult:
    layout = Layout(
        engines,
        estimate_engine_timings(model, cluster.gpu, gpus=cluster.tensor_parallel),
        estimate_learner_timings(model, cluster.gpu, gpus=learner_gpus),
    )
    return simulate(way, workload, layout, steps=steps)
