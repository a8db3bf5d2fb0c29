"""The life of a node: every event in every state, its times, and what no sequence of events can do."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.swarm.nodes import Effect, Event, Node, State, after

FREE, PAY, SLASH, PROBE, RELEASE = (
    Effect.FREE_LEASES,
    Effect.PAY,
    Effect.SLASH,
    Effect.PROBE,
    Effect.RELEASE_STAKE,
)
ALIVE = (State.PROBATION, State.HEALTHY, State.UNHEALTHY)
GONE = (State.INVITED, State.DEAD, State.LEFT, State.SUSPENDED)

# Everything that a single event changes, right after the last beat; all else leaves the state and has no effect.
CHANGES: dict[tuple[State, Event], tuple[State, tuple[Effect, ...]]] = {
    **{(state, Event.JOIN): (State.PROBATION, (PROBE,)) for state in GONE},
    **{(state, Event.LEAVE): (State.LEFT, (FREE, RELEASE)) for state in ALIVE},
    **{(state, Event.HARD): (State.BANNED, (FREE, SLASH)) for state in (*ALIVE, *GONE)},
    **{(state, Event.ACCEPTED): (state, (PAY,)) for state in (*ALIVE, *GONE)},
    (State.PROBATION, Event.ACCEPTED): (State.HEALTHY, (PAY,)),
    (State.UNHEALTHY, Event.BEAT): (State.HEALTHY, ()),
    (State.PROBATION, Event.SOFT): (State.SUSPENDED, (FREE,)),
    (State.PROBATION, Event.EXPIRED): (State.SUSPENDED, (FREE,)),
}


@pytest.mark.parametrize(("state", "event"), list(product(State, Event)), ids=lambda word: word.value)
def test_what_an_event_does_in_each_state(state, event):
    node, effects = after(Node(state, beat_at=100.0), event, now=100.0)
    assert (node.state, effects) == CHANGES.get((state, event), (state, ()))


@pytest.mark.parametrize(
    ("state", "silent_seconds", "then"),
    [
        pytest.param(State.HEALTHY, 29.9, State.HEALTHY, id="two beats missed"),
        pytest.param(State.HEALTHY, 30.0, State.UNHEALTHY, id="three beats missed"),
        pytest.param(State.HEALTHY, 90.0, State.DEAD, id="nine at once, as after a stall of the coordinator"),
        pytest.param(State.UNHEALTHY, 89.9, State.UNHEALTHY, id="eight beats missed"),
        pytest.param(State.UNHEALTHY, 90.0, State.DEAD, id="nine beats missed"),
        pytest.param(State.PROBATION, 29.9, State.PROBATION, id="on probation, two beats missed"),
        pytest.param(State.PROBATION, 30.0, State.DEAD, id="on probation, three beats missed"),
        pytest.param(State.LEFT, 1e6, State.LEFT, id="one that has left is not awaited"),
    ],
)
def test_silence_ends_a_node_by_steps(state, silent_seconds, then):
    node, effects = after(Node(state, beat_at=5.0), Event.CLOCK, now=5.0 + silent_seconds)
    assert node.state is then
    assert effects == ((FREE,) if then is not state else ())


def test_a_beat_from_the_past_takes_no_time_away():
    node, _ = after(Node(State.HEALTHY, beat_at=50.0), Event.BEAT, now=40.0)
    assert node.beat_at == 50.0


def judged(node: Node, *events: Event) -> Node:
    for event in events:
        node, _ = after(node, event, now=0.0)
    return node


def test_one_soft_rejection_in_twenty_is_borne_and_two_are_not():
    node = judged(Node(State.HEALTHY), *[Event.ACCEPTED] * 18, Event.SOFT)
    assert judged(node, Event.ACCEPTED).state is State.HEALTHY
    assert judged(node, Event.SOFT).state is State.SUSPENDED


def test_what_happened_more_than_a_hundred_verdicts_ago_is_forgotten():
    node = judged(Node(State.HEALTHY), *[Event.ACCEPTED] * 95, *[Event.SOFT] * 5)
    assert node.state is State.HEALTHY
    later = judged(node, *[Event.ACCEPTED] * 100)
    assert len(later.verdicts) == 100
    assert not any(later.verdicts)


def test_a_node_that_runs_out_of_time_again_and_again_is_suspended():
    assert judged(Node(State.HEALTHY), *[Event.EXPIRED] * 19).state is State.HEALTHY
    assert judged(Node(State.HEALTHY), *[Event.EXPIRED] * 20).state is State.SUSPENDED


@given(st.lists(st.tuples(st.sampled_from(Event), st.floats(0, 60))))
def test_no_life_gets_round_the_rules(life):
    node, now = Node(), 0.0
    for event, seconds in life:
        now += seconds
        before = node
        node, effects = after(node, event, now)
        if before.state is State.BANNED:
            assert node.state is State.BANNED
            assert effects == ()
        assert (PAY in effects) == (event is Event.ACCEPTED and before.state is not State.BANNED)
        is_banned_now = node.state is State.BANNED and before.state is not State.BANNED
        assert (SLASH in effects) == is_banned_now
        if is_banned_now and event is not Event.HARD:
            assert (event, before.state, before.suspect) == (Event.SOFT, State.PROBATION, True)
        if before.state in (State.PROBATION, State.HEALTHY) and node.state not in (State.PROBATION, State.HEALTHY):
            assert FREE in effects
        if node.may_lease and not before.may_lease:
            healed = event is Event.BEAT and before.state is State.UNHEALTHY
            assert healed or (event is Event.ACCEPTED and before.state is State.PROBATION)
        assert len(node.verdicts) <= 100


def test_a_node_that_comes_back_from_its_suspension_with_the_same_fault_is_banned():
    suspended, _ = after(Node(State.PROBATION), Event.SOFT, now=0.0)
    back, _ = after(suspended, Event.JOIN, now=600.0)
    assert after(back, Event.SOFT, now=601.0) == (replace(back, state=State.BANNED), (FREE, SLASH))
    healed, _ = after(back, Event.ACCEPTED, now=601.0)
    left, _ = after(healed, Event.LEAVE, now=602.0)
    back_again, _ = after(left, Event.JOIN, now=603.0)
    assert after(back_again, Event.SOFT, now=604.0)[0].state is State.SUSPENDED


def test_a_node_whose_files_do_not_come_is_suspended_and_not_banned():
    suspended, _ = after(Node(State.PROBATION), Event.EXPIRED, now=0.0)
    back, _ = after(suspended, Event.JOIN, now=600.0)
    assert after(back, Event.EXPIRED, now=601.0)[0].state is State.SUSPENDED
