"""How the GPUs of a cluster may be divided between learner and engines."""

import pytest

from train.planning.engine import H100
from train.planning.simulate import SYNC, TrainingMode
from train.planning.split import GpuCluster, iterate_candidate_splits


@pytest.mark.parametrize("gpus", [8, 12, 64])
def test_the_learner_gets_a_multiple_of_the_ranks_that_share_a_row(gpus: int) -> None:
    cluster = GpuCluster(H100, gpus, learner_multiple=4, min_learner_gpus=4)
    found = list(iterate_candidate_splits(TrainingMode("async", 2), cluster))
    assert found
    assert all(learner % 4 == 0 and learner + engines <= gpus for learner, engines in found)


def test_learner_and_engines_that_take_turns_have_all_gpus() -> None:
    assert list(iterate_candidate_splits(SYNC, GpuCluster(H100, 6, tensor_parallel=2))) == [(6, 3)]
    assert list(iterate_candidate_splits(SYNC, GpuCluster(H100, 1, tensor_parallel=2))) == []
