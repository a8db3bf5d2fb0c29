"""The life of a node: every event in every state, its times, and what no sequence of events can do."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.swarm.node_lifecycle import NodeEffect, NodeEvent, NodeLifecycle, NodeState, apply_event

FREE, PAY, SLASH = NodeEffect.FREE_LEASES, NodeEffect.PAY, NodeEffect.SLASH
ALIVE = (NodeState.PROBATION, NodeState.HEALTHY, NodeState.UNHEALTHY)
GONE = (NodeState.INVITED, NodeState.DEAD, NodeState.LEFT, NodeState.SUSPENDED)

# Everything that a single event changes, right after the last beat; all else leaves the state and has no effect.
CHANGES: dict[tuple[NodeState, NodeEvent], tuple[NodeState, tuple[NodeEffect, ...]]] = {
    **{(state, NodeEvent.JOIN): (NodeState.PROBATION, ()) for state in GONE},
    **{(state, NodeEvent.LEAVE): (NodeState.LEFT, (FREE,)) for state in ALIVE},
    **{(state, NodeEvent.HARD): (NodeState.BANNED, (FREE, SLASH)) for state in (*ALIVE, *GONE)},
    **{(state, NodeEvent.ACCEPTED): (state, (PAY,)) for state in (*ALIVE, *GONE)},
    (NodeState.PROBATION, NodeEvent.ACCEPTED): (NodeState.HEALTHY, (PAY,)),
    (NodeState.UNHEALTHY, NodeEvent.HEARTBEAT): (NodeState.HEALTHY, ()),
    (NodeState.PROBATION, NodeEvent.SOFT): (NodeState.SUSPENDED, (FREE,)),
    (NodeState.PROBATION, NodeEvent.EXPIRED): (NodeState.SUSPENDED, (FREE,)),
}


@pytest.mark.parametrize(("state", "event"), list(product(NodeState, NodeEvent)), ids=lambda word: word.value)
def test_what_an_event_does_in_each_state(state, event):
    node, effects = apply_event(NodeLifecycle(state, last_heartbeat=100.0), event, now=100.0)
    assert (node.state, effects) == CHANGES.get((state, event), (state, ()))


@pytest.mark.parametrize(
    ("state", "silent_seconds", "then"),
    [
        pytest.param(NodeState.HEALTHY, 29.9, NodeState.HEALTHY, id="two beats missed"),
        pytest.param(NodeState.HEALTHY, 30.0, NodeState.UNHEALTHY, id="three beats missed"),
        pytest.param(NodeState.HEALTHY, 90.0, NodeState.DEAD, id="nine at once, as after a stall of the coordinator"),
        pytest.param(NodeState.UNHEALTHY, 89.9, NodeState.UNHEALTHY, id="eight beats missed"),
        pytest.param(NodeState.UNHEALTHY, 90.0, NodeState.DEAD, id="nine beats missed"),
        pytest.param(NodeState.PROBATION, 29.9, NodeState.PROBATION, id="on probation, two beats missed"),
        pytest.param(NodeState.PROBATION, 30.0, NodeState.DEAD, id="on probation, three beats missed"),
        pytest.param(NodeState.LEFT, 1e6, NodeState.LEFT, id="one that has left is not awaited"),
    ],
)
def test_silence_ends_a_node_by_steps(state, silent_seconds, then):
    node, effects = apply_event(NodeLifecycle(state, last_heartbeat=5.0), NodeEvent.CLOCK, now=5.0 + silent_seconds)
    assert node.state is then
    assert effects == ((FREE,) if then is not state else ())


def test_a_beat_from_the_past_takes_no_time_away():
    node, _ = apply_event(NodeLifecycle(NodeState.HEALTHY, last_heartbeat=50.0), NodeEvent.HEARTBEAT, now=40.0)
    assert node.last_heartbeat == 50.0


def judged(node: NodeLifecycle, *events: NodeEvent) -> NodeLifecycle:
    for event in events:
        node, _ = apply_event(node, event, now=0.0)
    return node


def test_one_soft_rejection_in_twenty_is_borne_and_two_are_not():
    node = judged(NodeLifecycle(NodeState.HEALTHY), *[NodeEvent.ACCEPTED] * 18, NodeEvent.SOFT)
    assert judged(node, NodeEvent.ACCEPTED).state is NodeState.HEALTHY
    assert judged(node, NodeEvent.SOFT).state is NodeState.SUSPENDED


def test_what_happened_more_than_a_hundred_verdicts_ago_is_forgotten():
    node = judged(NodeLifecycle(NodeState.HEALTHY), *[NodeEvent.ACCEPTED] * 95, *[NodeEvent.SOFT] * 5)
    assert node.state is NodeState.HEALTHY
    later = judged(node, *[NodeEvent.ACCEPTED] * 100)
    assert len(later.recent_soft_rejections) == 100
    assert not any(later.recent_soft_rejections)


def test_a_node_that_runs_out_of_time_again_and_again_is_suspended():
    assert judged(NodeLifecycle(NodeState.HEALTHY), NodeEvent.EXPIRED).state is NodeState.HEALTHY
    assert judged(NodeLifecycle(NodeState.HEALTHY), *[NodeEvent.EXPIRED] * 2).state is NodeState.SUSPENDED


@pytest.mark.parametrize("n_accepted", [0, 1, 7, 17])
def test_soft_rejections_count_from_the_first(n_accepted):
    node = judged(NodeLifecycle(NodeState.HEALTHY), *[NodeEvent.ACCEPTED] * n_accepted, NodeEvent.SOFT)
    assert node.state is NodeState.HEALTHY
    assert judged(node, NodeEvent.SOFT).state is NodeState.SUSPENDED


@given(st.lists(st.tuples(st.sampled_from(NodeEvent), st.floats(0, 60))))
def test_no_life_gets_round_the_rules(life):
    node, now = NodeLifecycle(), 0.0
    for event, seconds in life:
        now += seconds
        before = node
        node, effects = apply_event(node, event, now)
        if before.state is NodeState.BANNED:
            assert node.state is NodeState.BANNED
            assert effects == ()
        assert (PAY in effects) == (event is NodeEvent.ACCEPTED and before.state is not NodeState.BANNED)
        is_banned_now = node.state is NodeState.BANNED and before.state is not NodeState.BANNED
        assert (SLASH in effects) == is_banned_now
        if is_banned_now and event is not NodeEvent.HARD:
            assert (event, before.state, before.is_suspect) == (NodeEvent.SOFT, NodeState.PROBATION, True)
        if before.state in (NodeState.PROBATION, NodeState.HEALTHY) and node.state not in (
            NodeState.PROBATION,
            NodeState.HEALTHY,
        ):
            assert FREE in effects
        if node.may_lease and not before.may_lease:
            healed = event is NodeEvent.HEARTBEAT and before.state is NodeState.UNHEALTHY
            assert healed or (event is NodeEvent.ACCEPTED and before.state is NodeState.PROBATION)
        assert len(node.recent_soft_rejections) <= 100


def test_a_node_that_comes_back_from_its_suspension_with_the_same_fault_is_banned():
    suspended, _ = apply_event(NodeLifecycle(NodeState.PROBATION), NodeEvent.SOFT, now=0.0)
    back, _ = apply_event(suspended, NodeEvent.JOIN, now=600.0)
    assert apply_event(back, NodeEvent.SOFT, now=601.0) == (replace(back, state=NodeState.BANNED), (FREE, SLASH))
    healed, _ = apply_event(back, NodeEvent.ACCEPTED, now=601.0)
    left, _ = apply_event(healed, NodeEvent.LEAVE, now=602.0)
    back_again, _ = apply_event(left, NodeEvent.JOIN, now=603.0)
    assert apply_event(back_again, NodeEvent.SOFT, now=604.0)[0].state is NodeState.SUSPENDED


def test_a_node_whose_files_do_not_come_is_suspended_and_not_banned():
    suspended, _ = apply_event(NodeLifecycle(NodeState.PROBATION), NodeEvent.EXPIRED, now=0.0)
    back, _ = apply_event(suspended, NodeEvent.JOIN, now=600.0)
    assert apply_event(back, NodeEvent.EXPIRED, now=601.0)[0].state is NodeState.SUSPENDED
