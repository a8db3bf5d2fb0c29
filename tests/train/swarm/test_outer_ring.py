"""The simulation of the overlap condition (benchmarks/swarm) finds what the formula says, where the formula holds."""

import pytest

from benchmarks.swarm.overlap import DELTA, MINUTE, RING, Ring, Simulation, Swarm

WITH_DELTAS = Ring(DELTA, RING.whole, RING.generate, RING.upload, RING.verify, RING.step)
QUICK = Ring(DELTA, RING.whole, 19 * MINUTE, RING.upload, RING.verify, RING.step)


@pytest.mark.parametrize(("ring", "least"), [(RING, 2), (WITH_DELTAS, 2), (QUICK, 1)])
def test_nodes_that_are_alike_keep_the_trainer_busy_from_the_bound_of_the_formula_on(ring, least):
    assert ring.min_staleness == least
    for staleness in (1, 2, 3, 4):
        found = Simulation(ring, Swarm(10), staleness, steps=8).run()
        assert found.trainer_idle == pytest.approx(ring.compute_idle_share(staleness), abs=1e-6)
        assert (found.trainer_idle < 1e-6) == (staleness >= least)


def test_nodes_that_vanish_take_no_group_with_them():
    swarm = Swarm(10, spare=0.5, speed_sigma=0.3, length_sigma=0.2, churn=0.3, lease_seconds=44 * MINUTE)
    found = Simulation(RING, swarm, 4, steps=20, seed=1).run()
    assert found.lost > 0
    assert found.trainer_idle < 0.1
    assert found == Simulation(RING, swarm, 4, steps=20, seed=1).run()
    assert found != Simulation(RING, swarm, 4, steps=20, seed=2).run()
