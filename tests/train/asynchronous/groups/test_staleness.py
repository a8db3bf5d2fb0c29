"""The bound holds whatever finishes first, and something can always be done; without the deadline cut it breaks."""

import random

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from train.asynchronous import events, staleness
from train.asynchronous.group_states import Groups, GroupState
from train.asynchronous.messages import SampleResult

STEPS = 10**6


def test_a_worker_may_be_given_work_as_long_as_it_can_be_used_in_time():
    def capacity(loaded, cuts, outstanding, *, eta, steps=STEPS):
        return staleness.compute_dispatch_capacity(loaded, cuts, outstanding, prompts=4, staleness=eta, steps=steps)

    assert capacity(0, 0, 0, eta=0) == 4
    assert capacity(0, 1, 0, eta=0) == 0  # a batch trains, and its weights are not there yet
    assert capacity(1, 1, 0, eta=0) == 4
    assert capacity(0, 0, 5, eta=1) == 3
    assert capacity(0, 2, 0, eta=1) == 0  # a slow worker
    assert capacity(0, 3, 0, eta=1) == 0
    assert capacity(5, 5, 0, eta=4, steps=6) == 4


def test_the_oldest_are_cut_first_and_only_if_none_of_the_others_gets_too_old():
    def cut(version, ready, others, **short):
        births = [birth for birth, _ in ready] + others
        return staleness.select_batch(version, ready, births, prompts=2, staleness=1, **short)

    assert cut(1, [(1, 7), (0, 5), (0, 9), (1, 4)], []) == [5, 9]
    assert cut(1, [(1, 7)], [0]) is None
    assert cut(1, [(1, 7), (1, 8)], [0]) is None  # it would be used at version 2
    assert cut(0, [(0, 7), (0, 8)], [0, 0]) == [7, 8]
    assert cut(0, [(0, 7)], [], allow_partial=True) == [7]
    assert cut(0, [(0, 7)], [0, 0], allow_partial=True) == [7]
    assert cut(0, [(0, 7)], [0, 0, 0], allow_partial=True) is None  # three are left for the two of version 1
    assert cut(0, [], [], allow_partial=True) is None


class Schedule:
    """A run in which chance decides who finishes first, over the pure rules alone."""

    def __init__(self, seed, *, oldest_finished_first=False):
        self.rng = random.Random(seed)
        self.prompts, self.eta = self.rng.randint(1, 6), self.rng.randint(0, 5)
        self.loaded = [0] * self.rng.randint(1, 3)
        self.cuts, self.running, self.ready = 0, {}, {}
        self.published, self.n_asked, self.violations = 0, 0, 0
        self.oldest_finished_first = oldest_finished_first

    def run(self, steps):
        while self.cuts < steps:
            self.rng.choice([self.ask, self.ask, self.finish, self.finish, self.give_up, self.load, self.crash])()
            if not self.cut():
                self.finish_something_if_nothing_else_can_be_done()
        return self.violations

    def outstanding(self):
        return [*self.running.values(), *self.ready.values()]

    def ask(self):
        loaded = self.rng.choice(self.loaded)
        n = staleness.compute_dispatch_capacity(
            loaded, self.cuts, len(self.outstanding()), prompts=self.prompts, staleness=self.eta, steps=STEPS
        )
        for _ in range(min(n, self.rng.randint(1, 8))):
            self.running[self.n_asked] = loaded
            self.n_asked += 1

    def finish(self):
        if self.running:
            number = self.rng.choice(sorted(self.running))
            birth = self.running.pop(number)
            if self.rng.random() < 0.75:
                self.ready[number] = birth

    def give_up(self):
        if self.running and self.rng.random() < 0.1:
            del self.running[self.rng.choice(sorted(self.running))]

    def load(self):
        self.loaded[self.rng.randrange(len(self.loaded))] = self.published

    def crash(self):
        if self.rng.random() < 0.02:
            self.running.clear()

    def cut(self):
        if self.oldest_finished_first:
            oldest = sorted((birth, number) for number, birth in self.ready.items())[: self.prompts]
            chosen = [number for _, number in oldest] if len(oldest) == self.prompts else None
        else:
            ready = [(birth, number) for number, birth in self.ready.items()]
            chosen = staleness.select_batch(
                self.cuts, ready, self.outstanding(), prompts=self.prompts, staleness=self.eta,
                allow_partial=self.rng.random() < 0.02,
            )  # fmt: skip
        if chosen is None:
            return False
        self.violations += sum(self.cuts - self.ready.pop(number) > self.eta for number in chosen)
        self.cuts += 1
        self.published = self.cuts
        return True

    def finish_something_if_nothing_else_can_be_done(self):
        if not self.running and len(self.ready) >= self.prompts:
            raise AssertionError("everything is finished, and no cut is allowed")
        if not self.running:
            self.loaded = [self.published] * len(self.loaded)
            self.ask()
            assert self.running, "nothing runs, nothing can be cut, and nothing may be asked"


def test_no_group_is_older_than_the_bound_in_any_schedule():
    assert sum(Schedule(seed).run(steps=20) for seed in range(100)) == 0


@pytest.mark.thorough
def test_no_group_is_older_than_the_bound_in_a_thousand_schedules():
    assert sum(Schedule(seed).run(steps=20) for seed in range(100, 1_100)) == 0


def test_taking_the_oldest_that_are_finished_breaks_the_bound():
    broken = sum(Schedule(seed, oldest_finished_first=True).run(steps=40) > 0 for seed in range(100))
    assert broken > 50


@given(seed=st.integers(0, 10**9))
@settings(max_examples=50, deadline=None)
def test_with_no_staleness_groups_are_used_in_the_order_in_which_they_were_asked(seed):
    schedule = Schedule(seed)
    schedule.eta, used = 0, []
    while schedule.cuts < 10:
        schedule.ask()
        schedule.load()
        schedule.finish()
        before = set(schedule.ready)
        schedule.cut()
        used += sorted(before - set(schedule.ready))
    assert used == sorted(used)


class Machine(RuleBasedStateMachine):
    """Groups from being asked to being used, in any order that Hypothesis thinks of."""

    @initialize(prompts=st.integers(1, 4), eta=st.integers(0, 4), workers=st.integers(1, 3))
    def begin(self, prompts, eta, workers):
        self.groups = Groups()
        self.prompts, self.eta = prompts, eta
        self.loaded = [0] * workers
        self.published = 0
        self.used: list[int] = []
        self.history: list[events.Event] = []
        self.happened(events.SegmentStarted(0, 0, 0))

    def happened(self, event):
        self.history.append(event)
        return self.groups.apply(event)

    def some(self, number, state):
        groups = self.groups.list_groups_in_state(state)
        return groups[number % len(groups)] if groups else None

    @rule(worker=st.integers(0, 2))
    def ask(self, worker):
        loaded = self.loaded[worker % len(self.loaded)]
        if self.groups.compute_capacity(loaded, prompts=self.prompts, max_staleness=self.eta, steps=STEPS):
            to_ask = self.groups.peek_next_group()
            self.happened(
                events.GroupDispatched(
                    to_ask.group,
                    to_ask.attempt,
                    to_ask.position,
                    loaded,
                    "w",
                    2,
                    9,
                    f"q{to_ask.group}",
                    b"",
                    n_lost=to_ask.n_lost,
                )
            )

    @rule(number=st.integers(0, 99), of_answer=st.integers(0, 1), attempt=st.integers(0, 2))
    def answer(self, number, of_answer, attempt):
        """Perhaps for the second time, perhaps for an attempt that is over."""
        if group := self.some(number, GroupState.LEASED):
            answer = SampleResult(group.dispatched.group, of_answer, attempt, b"", b"", (), "stop")
            self.happened(events.ResultReceived(answer, ""))

    @rule(number=st.integers(0, 99))
    def answer_all(self, number):
        if group := self.some(number, GroupState.LEASED):
            for of_answer in range(2):
                answer = SampleResult(group.dispatched.group, of_answer, group.dispatched.attempt, b"", b"", (), "stop")
                self.happened(events.ResultReceived(answer, ""))

    @rule(number=st.integers(0, 99), keep=st.integers(0, 3))
    def score(self, number, keep):
        if group := self.some(number, GroupState.FINISHED):
            asked = group.dispatched
            for of_answer in group.results:
                self.happened(events.ResultScored(asked.group, asked.attempt, of_answer, 1.0, "accepted", 0.0))
            self.judge(group, keep)

    def judge(self, group, keep):
        asked = group.dispatched
        if keep and group.results:
            self.happened(events.GroupAccepted(asked.group, asked.attempt, "some"))
        else:
            self.happened(events.GroupRejected(asked.group, asked.attempt, "none"))

    @rule(number=st.integers(0, 99))
    def lose(self, number):
        if group := self.some(number, GroupState.LEASED):
            self.happened(self.groups.build_lease_lost_event(group.dispatched.group, group.dispatched.attempt, "late"))
            if group.state is GroupState.SCORED:
                self.judge(group, keep=1)

    @rule(worker=st.integers(0, 2))
    def load(self, worker):
        self.loaded[worker % len(self.loaded)] = self.published

    @rule(short=st.integers(0, 9))
    def cut(self, short):
        numbers = self.groups.select_batch(prompts=self.prompts, max_staleness=self.eta, allow_partial=short == 0)
        if numbers is None:
            return
        version, groups = self.groups.batches_taken, [self.groups.open[number] for number in numbers]
        for group in groups:
            assert group.dispatched.start_version + self.eta >= version
            assert group.dispatched.start_version <= version
        self.used += numbers
        members = tuple(
            (group.dispatched.group, group.dispatched.attempt, group.dispatched.start_version) for group in groups
        )
        self.happened(events.BatchTaken(version, members))
        self.published = version + 1

    @precondition(lambda self: hasattr(self, "groups"))
    @rule()
    def crash(self):
        """All that a new controller has is the history."""
        before = self.groups
        self.groups = Groups()
        for event in self.history:
            self.groups.apply(event)
        assert self.groups.open == before.open
        assert self.groups.build_segment_header() == before.build_segment_header()
        from_header = Groups()
        from_header.apply(before.build_segment_header())
        assert from_header.build_segment_header() == before.build_segment_header()
        self.happened(self.groups.build_resumption_event(self.groups.batches_taken))
        assert not self.groups.list_groups_in_state(GroupState.LEASED)

    @invariant()
    def no_group_is_used_twice(self):
        if hasattr(self, "groups"):
            assert len(self.used) == len(set(self.used))
            assert not set(self.used) & set(self.groups.open)

    @invariant()
    def something_can_be_done(self):
        if not hasattr(self, "groups"):
            return
        running = [group for group in self.groups.open.values() if group.state is not GroupState.READY]
        can_cut = (
            self.groups.select_batch(prompts=self.prompts, max_staleness=self.eta, allow_partial=False) is not None
        )
        can_ask = (
            self.groups.compute_capacity(self.published, prompts=self.prompts, max_staleness=self.eta, steps=STEPS) > 0
        )
        assert running or can_cut or can_ask


TestGroups = Machine.TestCase
TestGroups.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@pytest.mark.thorough
def test_groups_in_many_more_orders():
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(Machine, settings=settings(max_examples=200, stateful_step_count=60, deadline=None))
