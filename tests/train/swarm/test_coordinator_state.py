"""Whatever nodes, verifiers, the clock and the trainer do: every group is with one node, and every count adds up."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import swarm_answers
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from swarms import RUN, accounts_of, answers_to
from swarms import settings as rules_of

from sandbox.service.service_errors import ServiceError
from train.asynchronous.messages import (
    ACCEPTED,
    Heartbeat,
    Lease,
    LeaseKey,
    LeaseVerdict,
    SampleResult,
    pack_logprobs,
    pack_tokens,
)
from train.sampling.protocol import SamplingParams
from train.swarm import node_lifecycle
from train.swarm.coordinator.coordinator_state import CoordinatorState
from train.swarm.coordinator.intake import Forbidden, NotJoined, RetryLater
from train.swarm.invites import create_invite
from train.swarm.ledger import Ledger, LedgerRow, audit_ledger
from train.swarm.messages import VerificationResult
from train.swarm.signatures import public_key_bytes
from train.swarm.verification.thresholds import Thresholds

RUN_KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
NODES = [bytes([letter]) * 32 for letter in b"abcdefghijkl"]
VERIFIERS = [b"v" * 32, b"w" * 32]
INVITES = {
    key: create_invite(RUN_KEY, run=RUN, coordinator="http://c", relays=(), seconds=60,
                    role="verifier" if key in VERIFIERS else "node", stake=100)
    for key in NODES + VERIFIERS
}  # fmt: skip
RULES = rules_of(lease_seconds=100.0)


def lease_of(key: LeaseKey, *, version: int = 0, **draw: Any) -> Lease:
    seeds = tuple(range(key[0] * 10, key[0] * 10 + 2))
    return Lease(
        key[0],
        key[1],
        version,
        (1, 2, 3),
        seeds,
        SamplingParams(**{"temperature": 1.0, "top_p": 1.0, "max_tokens": 8, "logprobs": True, **draw}),
        60.0,
    )


def opened(ledger: Ledger, now: float = 0.0, **changes: Any) -> CoordinatorState:
    coordinator = CoordinatorState(msgspec.structs.replace(RULES, **changes), ledger, now)
    coordinator.record_version(0, b"m" * 32)
    return coordinator


def join(coordinator: CoordinatorState, key: bytes, now: float = 0.0, *, engine: str = "vllm 0.1") -> None:
    coordinator.join(key, INVITES[key], INVITES[key].id, engine, "a box", now, is_valid=True)


def beat_of(loaded: int, leases: Sequence[int] = (), speed: float = 0.0) -> Heartbeat:
    return Heartbeat("a node", loaded, tuple((lease, 0) for lease in leases), speed)


VERDICTS = [
    *[ACCEPTED] * 6,
    LeaseVerdict("soft", "replay"),
    LeaseVerdict("hard", "replay"),
    LeaseVerdict("unknown", "crashed"),
    LeaseVerdict("unknown", "no weights"),
]


class Swarm(RuleBasedStateMachine):
    """A trainer that asks for groups, and everybody else at random."""

    @initialize()
    def start(self) -> None:
        self.ledger = Ledger(Path(":memory:"), RUN_KEY)
        self.coordinator = opened(self.ledger)
        self.now = 0.0
        self.next_group = 0
        self.to_ask: list[LeaseKey] = []  # given back, to be asked again
        self.with_nodes: dict[LeaseKey, bytes] = {}  # as the trainer would know it
        self.leases: list[tuple[bytes, Lease]] = []  # all that were ever given
        self.jobs: list[tuple[bytes, int, Lease]] = []
        self.n_given: Counter[bytes] = Counter()
        self.trained_on: Counter[int] = Counter()

    def taken(self) -> None:
        """What the trainer hears."""
        for answers in self.coordinator.accepted:
            key = answers[0].group, answers[0].attempt
            assert self.with_nodes.pop(key), "an answer to a group that nobody had"
            assert [answer.number for answer in answers] == list(range(len(answers)))
            self.trained_on[key[0]] += 1
        for key in self.coordinator.leases_to_release:
            assert self.with_nodes.pop(key), "a group was given back twice"
            self.to_ask.append((key[0], key[1] + 1))
        self.coordinator.accepted.clear()
        self.coordinator.leases_to_release.clear()
        self.coordinator.discarded.clear()

    @rule(key=st.sampled_from(NODES + VERIFIERS))
    def join(self, key: bytes) -> None:
        try:
            join(self.coordinator, key, self.now)
        except Forbidden:
            assert self.coordinator.members[key].lifecycle.state is node_lifecycle.NodeState.BANNED
        except RetryLater:
            assert self.coordinator.members[key].lifecycle.state is node_lifecycle.NodeState.SUSPENDED

    @rule(key=st.sampled_from(NODES), n=st.integers(1, 3))
    def ask(self, key: bytes, n: int) -> None:
        try:
            room = self.coordinator.compute_free_capacity(key)
        except (NotJoined, Forbidden):
            return
        for _ in range(min(n, room)):
            if self.to_ask:
                asked = self.to_ask.pop()
            else:
                asked, self.next_group = (self.next_group, 0), self.next_group + 1
            lease = self.coordinator.grant(key, lease_of(asked), self.now)
            assert lease is not None
            assert lease.seeds == lease_of(asked).seeds
            self.with_nodes[asked] = key
            self.given(key, lease)

    def given(self, key: bytes, lease: Lease) -> None:
        assert self.coordinator.members[key].lifecycle.state is not node_lifecycle.NodeState.BANNED
        self.leases.append((key, lease))
        self.n_given[key] += 1

    @rule(key=st.sampled_from(NODES), knows=st.booleans())
    def beat(self, key: bytes, knows: bool) -> None:
        running = tuple(lease.group for owner, lease in self.leases if owner == key) if knows else ()
        try:
            orders = self.coordinator.heartbeat(key, beat_of(0, running, float("nan")), self.now)
        except (NotJoined, Forbidden):
            return
        assert not {lease for lease, _ in orders.leases_to_drop} & self.coordinator.members[key].leases

    @rule(key=st.sampled_from(NODES + VERIFIERS))
    def leave(self, key: bytes) -> None:
        self.coordinator.release(key, None, self.now)

    @precondition(lambda self: self.leases)
    @rule(place=st.integers(1, 6), digest=st.sampled_from([b"1" * 32] * 4 + [b"2" * 32]), thief=st.booleans())
    def submit(self, place: int, digest: bytes, thief: bool) -> None:
        owner, lease = self.leases[-min(place, len(self.leases))]
        if thief:
            other = next(node for node in NODES if node != owner)
            assert self.coordinator.submit(other, lease.group, 10, digest, self.now) == "stale"
        else:
            self.coordinator.submit(owner, lease.group, 10, digest, self.now)

    @rule(key=st.sampled_from(VERIFIERS))
    def take(self, key: bytes) -> None:
        try:
            job = self.coordinator.assign_job(key, self.now).job
        except NotJoined:
            return
        if job is not None:
            self.jobs.append((key, job.lease.group, job.lease))

    @precondition(lambda self: self.jobs)
    @rule(place=st.integers(1, 4), verdict=st.sampled_from(VERDICTS))
    def judge(self, place: int, verdict: LeaseVerdict) -> None:
        key, lease_id, lease = self.jobs[-min(place, len(self.jobs))]
        answers = answers_to(lease) if verdict is ACCEPTED else ()
        try:
            self.coordinator.record_verdict(key, lease_id, VerificationResult(verdict, answers), self.now)
        except NotJoined:
            return

    @rule(seconds=st.sampled_from([1.0, 9.0, 15.0, 31.0, 95.0, 700.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.coordinator.tick(self.now)

    @precondition(lambda self: self.with_nodes)
    @rule(place=st.integers(0, 9))
    def trainer_gives_up(self, place: int) -> None:
        key = sorted(self.with_nodes)[place % len(self.with_nodes)]
        self.coordinator.cancel([key], self.now)
        assert self.with_nodes.pop(key)
        self.to_ask.append((key[0], key[1] + 1))

    @rule(key=st.sampled_from(NODES))
    def operator_bans(self, key: bytes) -> None:
        if key in self.coordinator.members and self.n_given[key] > 3:
            self.coordinator.ban(key, self.now)

    @rule()
    def restart(self) -> None:
        """The coordinator is killed, and started with its ledger. The trainer hears that the worker is new."""
        self.taken()
        self.coordinator = opened(self.ledger, self.now)
        for key in self.with_nodes:
            self.to_ask.append((key[0], key[1] + 1))
        self.with_nodes.clear()

    @invariant()
    def every_group_is_with_one_node(self) -> None:
        self.taken()
        running = self.coordinator.list_open_lease_keys()
        assert sorted(running) == sorted(self.with_nodes), "the trainer and the coordinator differ"
        assert max(self.trained_on.values(), default=1) == 1

    @invariant()
    def counts_equal_a_recount(self) -> None:
        found = accounts_of(self.ledger.read_entries())
        assert found == self.ledger.accounts
        open_leases = {key: len(member.leases) for key, member in self.coordinator.members.items()}
        for key, account in found.nodes.items():
            assert account.n_leases == self.n_given[key]
            assert account.n_leases == sum(account.verdict_counts.values()) + open_leases.get(key, 0)
            assert account.stake >= 0
            assert account.earned <= 32 * account.verdict_counts.get("accepted", 0)
        for key, member in self.coordinator.members.items():
            life, kept = member.lifecycle, found.nodes[key].lifecycle
            silent = life.state is node_lifecycle.NodeState.UNHEALTHY
            assert kept.state is (node_lifecycle.NodeState.HEALTHY if silent else life.state)
            assert kept.recent_soft_rejections == life.recent_soft_rejections
            assert kept.is_suspect == life.is_suspect
        counts = self.coordinator.count_leases()
        assert sum(counts.get(state, 0) for state in ("open", "submitted", "verifying")) == sum(open_leases.values())

    @invariant()
    def who_is_banned_has_nothing(self) -> None:
        for key, member in self.coordinator.members.items():
            if member.lifecycle.state is node_lifecycle.NodeState.BANNED:
                assert not member.leases
                assert self.ledger.get_account(key).stake == 0
                with pytest.raises(Forbidden):
                    self.coordinator.compute_free_capacity(key)

    def teardown(self) -> None:
        if hasattr(self, "ledger"):
            assert audit_ledger(all_rows(self.ledger), public_key_bytes(RUN_KEY)).fault == ""
            self.ledger.close()


def all_rows(ledger: Ledger) -> list[LedgerRow]:
    return [LedgerRow(*values) for values in ledger._rows.execute("SELECT * FROM entries ORDER BY number")]


Swarm.TestCase.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestSwarm = Swarm.TestCase


@pytest.mark.parametrize("seed", [9, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(4))])
def test_long_histories_add_up(seed: int) -> None:
    """The same rules, drawn so that much work gets done in between."""
    swarm, rng = Swarm(), random.Random(seed)
    swarm.start()
    nodes_here = NODES[:6]

    def everybody(what: Callable[[bytes], None]) -> None:
        for key in nodes_here:
            what(key)

    def verifiers_join() -> None:
        for key in VERIFIERS:
            if key not in swarm.coordinator.verifiers:
                swarm.join(key=key)

    def submit() -> None:
        if swarm.leases:
            digest = b"12"[rng.random() < 0.01 :][:1] * 32
            swarm.submit(place=rng.randint(1, 6), digest=digest, thief=rng.random() < 0.1)

    def judge() -> None:
        if swarm.jobs:
            swarm.judge(place=rng.randint(1, 4), verdict=rng.choice([ACCEPTED] * 60 + VERDICTS))

    def give_up() -> None:
        if swarm.with_nodes:
            swarm.trainer_gives_up(place=rng.randint(0, 9))

    steps: list[tuple[float, Callable[[], None]]] = [
        (3, lambda: everybody(lambda key: swarm.join(key=key))),
        (3, verifiers_join),
        (10, lambda: swarm.ask(key=rng.choice(nodes_here), n=rng.randint(1, 3))),
        (8, lambda: everybody(lambda key: swarm.beat(key=key, knows=True))),
        (2, lambda: swarm.beat(key=rng.choice(nodes_here), knows=False)),
        (25, submit),
        (15, lambda: swarm.take(key=rng.choice(VERIFIERS))),
        (25, judge),
        (8, lambda: swarm.wait(seconds=rng.choice([0.5, 1.0, 2.0, 5.0] * 8 + [31.0, 95.0, 700.0]))),
        (1, give_up),
        (0.3, lambda: swarm.leave(key=rng.choice(nodes_here + VERIFIERS))),
        (0.1, lambda: swarm.operator_bans(key=rng.choice(nodes_here))),
        (0.2, swarm.restart),
    ]
    for step in rng.choices([step for _, step in steps], [weight for weight, _ in steps], k=500):
        step()
        swarm.every_group_is_with_one_node()
        swarm.counts_equal_a_recount()
        swarm.who_is_banned_has_nothing()
    assert swarm.trained_on, "too little was done to show anything"
    swarm.teardown()


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(Path(":memory:"), RUN_KEY)


def healthy(coordinator: CoordinatorState, key: bytes, group: int, now: float = 0.0) -> None:
    """Let a node join, and have its first lease accepted."""
    join(coordinator, key, now)
    join(coordinator, VERIFIERS[0], now, engine="transformers 5")
    lease = granted(coordinator, lease_of((group, 0)), now, key)
    assert finished(coordinator, key, lease, now).outcome == "accepted"
    assert coordinator.members[key].lifecycle.state is node_lifecycle.NodeState.HEALTHY


def granted(coordinator: CoordinatorState, lease: Lease, now: float = 0.0, key: bytes = NODES[0]) -> Lease:
    given = coordinator.grant(key, lease, now)
    assert given is not None
    return given


def finished(
    coordinator: CoordinatorState, key: bytes, lease: Lease, now: float = 0.0, answers: tuple[SampleResult, ...] =
    (), verdict: LeaseVerdict = ACCEPTED,
) -> LeaseVerdict:  # fmt: skip
    assert coordinator.submit(key, lease.group, 1, b"d" * 32, now) == "taken"
    assert coordinator.assign_job(VERIFIERS[0], now).job is not None
    verified = VerificationResult(verdict, answers or answers_to(lease))
    coordinator.record_verdict(VERIFIERS[0], lease.group, verified, now)
    return coordinator.members[key].unsent_verdicts[-1][1]


def test_a_node_on_probation_has_one_lease_and_its_answers_are_trained_on(ledger: Ledger) -> None:
    coordinator = opened(ledger)
    join(coordinator, NODES[0])
    assert coordinator.compute_free_capacity(NODES[0]) == 1
    lease = granted(coordinator, lease_of((7, 0)))
    assert coordinator.compute_free_capacity(NODES[0]) == 0
    join(coordinator, VERIFIERS[0])
    assert finished(coordinator, NODES[0], lease) == ACCEPTED
    assert len(coordinator.accepted) == 1


def test_nobody_gets_a_group_that_has_been_answered(ledger: Ledger) -> None:
    """What another node has answered could be copied, and paid twice."""
    coordinator = opened(ledger)
    healthy(coordinator, NODES[0], 7)
    join(coordinator, NODES[1])
    assert coordinator.list_open_lease_keys() == ()
    assert len(ledger.accounts.nodes[NODES[0]].verdict_counts) == 1
    granted = coordinator.grant(NODES[1], lease_of((8, 0)), 0.0)
    assert granted is not None
    assert granted.seeds == lease_of((8, 0)).seeds


def test_only_nodes_whose_work_was_accepted_sample_for_evaluations(ledger: Ledger) -> None:
    coordinator = opened(ledger)
    join(coordinator, NODES[0])
    assert not coordinator.can_evaluate(NODES[0])
    healthy(coordinator, NODES[0], 0)
    assert coordinator.can_evaluate(NODES[0])
    granted(coordinator, lease_of((1, 0)))
    coordinator.release(NODES[0], None, 1.0)
    join(coordinator, NODES[0], 2.0)
    assert not coordinator.can_evaluate(NODES[0]), "it has given a lease back"
    healthy(coordinator, NODES[1], 3)
    coordinator.release(NODES[1], None, 4.0)
    join(coordinator, NODES[1], 5.0)
    assert coordinator.can_evaluate(NODES[1])


def test_a_node_that_refuses_prompts_gains_nothing(ledger: Ledger) -> None:
    coordinator = opened(ledger)
    healthy(coordinator, NODES[0], 1)
    coordinator.accepted.clear()
    lease = granted(coordinator, lease_of((2, 0)))
    refusals = tuple(SampleResult(lease.group, number, 0, b"", b"", (), "refused") for number in range(2))
    assert finished(coordinator, NODES[0], lease, answers=refusals) == LeaseVerdict("soft", "length")
    assert (coordinator.accepted, coordinator.leases_to_release) == ([], [(2, 0)])


def test_answers_that_are_not_to_the_lease_are_the_verifiers_fault(ledger: Ledger) -> None:
    coordinator = opened(ledger)
    healthy(coordinator, NODES[0], 1)
    logprob = pack_logprobs([-1.0])
    for group, (n_answers, changes) in enumerate(
        (
            (1, {}),
            (2, {"tokens": b"123", "logprobs": b"123"}),
            (2, {"tokens": pack_tokens([1] * 9), "logprobs": logprob * 9, "spans": ((0, 0, 9),)}),
            (2, {"tokens": pack_tokens([1]), "logprobs": b"", "spans": ((0, 0, 1),)}),
            (2, {"tokens": pack_tokens([1000]), "logprobs": logprob, "spans": ((0, 0, 1),)}),
            (2, {"number": 0}),
            (2, {"group": 7}),
        ),
        start=2,
    ):
        lease = granted(coordinator, lease_of((group, 0)))
        answers = answers_to(lease, **changes)[-n_answers:]
        assert finished(coordinator, NODES[0], lease, answers=answers) == LeaseVerdict("unknown", "crashed")
        assert coordinator.leases_to_release[-1] == (group, 0)
    assert coordinator.members[NODES[0]].lifecycle.state is node_lifecycle.NodeState.HEALTHY


def test_a_node_gets_more_leases_the_more_were_accepted(ledger: Ledger) -> None:
    coordinator = opened(ledger)
    rooms = []
    healthy(coordinator, NODES[0], 0)
    for group in range(1, 12):
        rooms.append(coordinator.compute_free_capacity(NODES[0]))
        lease = granted(coordinator, lease_of((group, 0)))
        finished(coordinator, NODES[0], lease)
    assert rooms == sorted(rooms)
    assert rooms[:4] == [1, 2, 2, 3], "a node that is new holds many leases"
    assert rooms[-1] == 6
    for group in range(12, 16):
        lease = granted(coordinator, lease_of((group, 0)))
        finished(coordinator, NODES[0], lease)
    lease = granted(coordinator, lease_of((99, 0)))
    coordinator.tick(25.0)
    finished(coordinator, NODES[0], lease, verdict=LeaseVerdict("soft", "replay"))
    assert coordinator.compute_free_capacity(NODES[0]) == 8  # ceil(8 * 16 / 17)


def test_a_second_file_that_differs_bans_and_the_same_again_does_not(ledger: Ledger) -> None:
    coordinator = opened(ledger)
    healthy(coordinator, NODES[0], 0)
    lease = granted(coordinator, lease_of((1, 0)))
    assert coordinator.submit(NODES[0], lease.group, 1, b"a" * 32, 1.0) == "taken"
    assert coordinator.submit(NODES[0], lease.group, 1, b"a" * 32, 1.0) == "again"
    assert coordinator.submit(NODES[0], lease.group, 1, b"b" * 32, 1.0) == "stale"
    assert coordinator.members[NODES[0]].lifecycle.state is node_lifecycle.NodeState.BANNED
    assert ledger.get_account(NODES[0]).stake == 0


def test_no_other_key_gets_in_with_an_invite_that_was_used(ledger: Ledger) -> None:
    coordinator = opened(ledger)
    join(coordinator, NODES[0])
    with pytest.raises(Forbidden, match="another key has used"):
        coordinator.join(NODES[1], INVITES[NODES[0]], INVITES[NODES[0]].id, "vllm 1", "", 0.0, is_valid=True)
    again = opened(ledger)
    with pytest.raises(Forbidden, match="another key has used"):
        again.join(NODES[1], INVITES[NODES[0]], INVITES[NODES[0]].id, "vllm 1", "", 0.0, is_valid=True)


def test_an_invite_that_has_run_out_admits_nobody_new(ledger: Ledger) -> None:
    coordinator = opened(ledger)
    join(coordinator, NODES[0])
    for key in NODES[:2]:
        try:
            coordinator.join(key, INVITES[key], INVITES[key].id, "vllm 1", "", 0.0, is_valid=False)
        except ServiceError:
            assert key == NODES[1]


def test_nodes_cannot_verify_and_verifiers_cannot_sample(ledger: Ledger) -> None:
    coordinator = opened(ledger)
    join(coordinator, NODES[0])
    join(coordinator, VERIFIERS[0])
    with pytest.raises(Forbidden):
        coordinator.assign_job(NODES[0], 0.0)
    with pytest.raises(NotJoined):
        coordinator.compute_free_capacity(VERIFIERS[0])
    with pytest.raises(Forbidden, match="another key"):
        coordinator.join(NODES[0], INVITES[VERIFIERS[1]], b"another", "vllm 1", "", 0.0, is_valid=True)


def test_a_node_cannot_choose_its_thresholds_by_the_name_of_its_engine(ledger: Ledger) -> None:
    wide = {
        "vllm/transformers": swarm_answers.bars_of(margin=9.0),
        "transformers/transformers": swarm_answers.bars_of(margin=0.02),
        "": Thresholds(),
    }
    coordinator = opened(ledger, thresholds=wide)
    assert RULES.engine.kind == "transformers"
    join(coordinator, NODES[0], 0.0, engine="transformers 5.0")
    with pytest.raises(Forbidden, match="engines of the kind vllm; it accepts transformers"):
        join(coordinator, NODES[1], 0.0, engine="vllm 0.32.0")


def test_a_file_that_outlasts_its_verifiers_is_unknown(ledger: Ledger) -> None:
    coordinator = opened(ledger)
    join(coordinator, NODES[0])
    join(coordinator, VERIFIERS[0])
    lease = granted(coordinator, lease_of((1, 0)))
    coordinator.submit(NODES[0], lease.group, 1, b"a" * 32, 0.0)
    for _ in range(3):
        assert coordinator.assign_job(VERIFIERS[0], 0.0).job is not None
        join(coordinator, VERIFIERS[0])  # it was killed, and started again
    assert coordinator.members[NODES[0]].unsent_verdicts[-1][1] == LeaseVerdict("unknown", "crashed")
    assert coordinator.leases_to_release == [(1, 0)]


def test_a_stake_belongs_to_the_invite_and_is_lost_by_cheating_once_and_for_all(ledger: Ledger) -> None:
    coordinator = opened(ledger)
    healthy(coordinator, NODES[0], 10)
    assert ledger.get_account(NODES[0]).stake == 100
    for now in (1.0, 3.0):
        coordinator.release(NODES[0], None, now)
        join(coordinator, NODES[0], now + 1)
        assert ledger.get_account(NODES[0]).stake == 100, "it is neither paid out by leaving nor renewed by joining"
    lease = granted(coordinator, lease_of((0, 0)), 5.0)
    finished(coordinator, NODES[0], lease, 5.0, verdict=LeaseVerdict("hard", "replay"))
    assert ledger.get_account(NODES[0]).stake == 0
    assert ledger.get_account(NODES[0]).state == "banned"
    for state in (coordinator, opened(ledger, 6.0)):
        with pytest.raises(Forbidden, match=r"banned: a lease was rejected \(replay\)"):
            join(state, NODES[0], 7.0)
    assert ledger.get_account(NODES[0]).stake == 0


def test_an_invite_without_a_stake_gives_none(ledger: Ledger) -> None:
    coordinator = opened(ledger)
    poor = msgspec.structs.replace(INVITES[NODES[0]], stake=0)
    coordinator.join(NODES[0], poor, poor.id, "vllm 0.1", "a box", 0.0, is_valid=True)
    assert ledger.get_account(NODES[0]).stake == 0


def test_the_operator_is_named_for_a_ban_of_his_own(ledger: Ledger) -> None:
    coordinator = opened(ledger)
    healthy(coordinator, NODES[0], 0)
    coordinator.grant(NODES[0], lease_of((1, 0)), 0.0)
    coordinator.ban(NODES[0], 1.0)
    for state in (coordinator, opened(ledger, 2.0)):
        with pytest.raises(Forbidden, match="banned: by the operator"):
            join(state, NODES[0], 3.0)


def test_what_cannot_be_drawn_again_is_not_leased(ledger: Ledger) -> None:
    coordinator = opened(ledger)
    join(coordinator, NODES[0])
    assert coordinator.grant(NODES[0], lease_of((-1, 0), temperature=0.0), 0.0) is None
    assert coordinator.leases_to_release == [(-1, 0)]
    healthy(coordinator, NODES[0], 1)
    assert not coordinator.can_evaluate(NODES[0]), "it would get the same samples again and again"


def test_evaluation_gets_no_log_probabilities_that_it_did_not_ask_for(ledger: Ledger) -> None:
    coordinator = opened(ledger)
    join(coordinator, NODES[0])
    join(coordinator, VERIFIERS[0])
    lease = granted(coordinator, lease_of((-1, 0), logprobs=False))
    finished(coordinator, NODES[0], lease)
    assert [answer.logprobs for answer in coordinator.accepted[0]] == [b"", b""]


def test_old_versions_are_not_leased(ledger: Ledger) -> None:
    coordinator = opened(ledger)
    coordinator.record_version(1, b"")
    coordinator.record_version(4, b"")
    assert [coordinator.is_too_old(version) for version in (-1, 1, 2, 4, 5)] == [True, True, False, False, True]


def test_a_lease_that_never_reached_its_node_is_given_to_another(ledger: Ledger) -> None:
    coordinator = opened(ledger)
    healthy(coordinator, NODES[0], 0)
    lost, known = (coordinator.grant(NODES[0], lease_of((group, 0)), 0.0) for group in (1, 2))
    assert lost is not None
    assert known is not None
    for seconds in (10.0, 20.0, 29.0):
        coordinator.heartbeat(NODES[0], beat_of(0, (known.group,)), seconds)
    assert coordinator.leases_to_release == []
    orders = coordinator.heartbeat(NODES[0], beat_of(0, (known.group,)), 31.0)
    assert coordinator.leases_to_release == [(1, 0)]
    assert orders.verdicts[-1] == ((lost.group, 0), LeaseVerdict("unknown", "freed")), (
        "the node is blamed for a lost reply"
    )
    orders = coordinator.heartbeat(NODES[0], beat_of(0), 62.0)
    assert orders.verdicts == (((known.group, 0), LeaseVerdict("soft", "expired")),), "this one it had"


def test_a_new_node_is_not_suspended_for_a_lease_that_never_reached_it(ledger: Ledger) -> None:
    coordinator = opened(ledger)
    join(coordinator, NODES[0])
    assert coordinator.grant(NODES[0], lease_of((1, 0)), 0.0) is not None
    coordinator.heartbeat(NODES[0], beat_of(0), 31.0)
    assert coordinator.leases_to_release == [(1, 0)]
    assert coordinator.members[NODES[0]].lifecycle.state is node_lifecycle.NodeState.PROBATION
    assert coordinator.compute_free_capacity(NODES[0]) == 1


@pytest.mark.parametrize("names_them", [True, False])
def test_leaving_gives_leases_back_and_costs_what_an_expired_lease_costs_once(ledger: Ledger, names_them: bool) -> None:
    coordinator = opened(ledger)
    healthy(coordinator, NODES[0], 0)
    leases = [coordinator.grant(NODES[0], lease_of((group, 0)), 0.0) for group in (1, 2)]
    if names_them:
        coordinator.heartbeat(NODES[0], beat_of(0, tuple(lease.group for lease in leases if lease)), 1.0)
    coordinator.release(NODES[0], None, 2.0)
    assert sorted(coordinator.leases_to_release) == [(1, 0), (2, 0)]
    assert ledger.get_account(NODES[0]).reputation == 0.5
    assert coordinator.members[NODES[0]].lifecycle.recent_soft_rejections == (False, True)
    assert coordinator.members[NODES[0]].lifecycle.state is node_lifecycle.NodeState.LEFT


def test_leaving_without_a_lease_costs_nothing(ledger: Ledger) -> None:
    coordinator = opened(ledger)
    healthy(coordinator, NODES[0], 0)
    lease = granted(coordinator, lease_of((1, 0)))
    assert coordinator.submit(NODES[0], lease.group, 1, b"d" * 32, 0.0) == "taken"
    coordinator.release(NODES[0], None, 2.0)
    assert ledger.get_account(NODES[0]).reputation == 1.0


def test_a_new_node_that_leaves_with_its_lease_to_get_another_one_is_suspended(ledger: Ledger) -> None:
    coordinator = opened(ledger)
    join(coordinator, NODES[0])
    assert coordinator.grant(NODES[0], lease_of((1, 0)), 0.0) is not None
    coordinator.release(NODES[0], None, 1.0)
    with pytest.raises(RetryLater, match="1 of its last 1 leases were rejected or expired"):
        join(coordinator, NODES[0], 2.0)


def test_a_node_that_never_names_its_leases_pays_for_them_from_the_second_on(ledger: Ledger) -> None:
    coordinator = opened(ledger)
    healthy(coordinator, NODES[0], 0)
    now = 0.0
    for outcome in ("freed", "expired", "expired"):
        granted(coordinator, lease_of((int(now) + 1, 0)), now)
        now += 31.0
        assert coordinator.heartbeat(NODES[0], beat_of(0), now).verdicts[-1][1].reason == outcome
    assert coordinator.members[NODES[0]].lifecycle.state is node_lifecycle.NodeState.SUSPENDED


def test_a_suspended_node_is_told_why(ledger: Ledger) -> None:
    coordinator = opened(ledger)
    join(coordinator, NODES[0])
    lease = granted(coordinator, lease_of((1, 0)))
    for seconds in range(0, 101, 10):
        coordinator.heartbeat(NODES[0], beat_of(0, (lease.group,), 1.0), float(seconds))
    coordinator.tick(100.0)
    told = "suspended: 1 of its last 1 leases were rejected or expired; last reason: no completions arrived in time"
    with pytest.raises(NotJoined, match=told):
        coordinator.heartbeat(NODES[0], beat_of(0, (lease.group,), 1.0), 101.0)
    for state in (coordinator, opened(ledger, 102.0)):
        with pytest.raises(RetryLater, match=f"{told}. It may join again in"):
            join(state, NODES[0], 103.0)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_each_suspension_lasts_twice_as_long_as_the_one_before_also_after_a_restart(
    ledger: Ledger, is_restarted: bool
) -> None:
    coordinator, now = opened(ledger), 0.0
    for group, seconds in enumerate((600, 1200, 2400)):
        join(coordinator, NODES[0], now)
        assert coordinator.grant(NODES[0], lease_of((group, 0)), now) is not None
        coordinator.release(NODES[0], None, now)
        coordinator = opened(ledger, now) if is_restarted else coordinator
        with pytest.raises(RetryLater, match=rf"It may join again in {seconds} s"):
            join(coordinator, NODES[0], now)
        now += seconds


def test_a_node_that_is_rejected_for_other_reasons_is_told_those(ledger: Ledger) -> None:
    coordinator = opened(ledger)
    healthy(coordinator, NODES[0], 0)
    for group in (1, 2):
        lease = granted(coordinator, lease_of((group, 0)))
        finished(coordinator, NODES[0], lease, verdict=LeaseVerdict("soft", "probabilities"))
    with pytest.raises(RetryLater, match="2 of its last 3 leases .* last reason: probabilities"):
        join(coordinator, NODES[0], 1.0)


def test_a_slow_node_gets_the_time_that_its_speed_needs_within_bounds(ledger: Ledger) -> None:
    coordinator = opened(ledger)
    healthy(coordinator, NODES[0], 0)
    seconds = []
    for group, speed in ((1, float("nan")), (2, 1e6), (3, 0.16), (4, 0.0), (5, 1e-9), (6, -1.0)):
        coordinator.heartbeat(NODES[0], beat_of(0, (), speed), 0.0)
        lease = granted(coordinator, lease_of((group, 0)))
        seconds.append(lease.expires_in_seconds)
        coordinator.submit(NODES[0], lease.group, 1, b"d" * 32, 0.0)
    # Two answers of 8 tokens, 1.5 times as long as the speed says; a node that rests keeps the last speed.
    assert seconds == [100.0, 100.0, 150.0, 150.0, 400.0, 400.0]


def test_a_node_that_drops_leases_is_suspended_once_and_loses_the_others_without_blame(ledger: Ledger) -> None:
    coordinator = opened(ledger)
    healthy(coordinator, NODES[0], 0)
    for group in range(1, 20):
        lease = granted(coordinator, lease_of((group, 0)))
        finished(coordinator, NODES[0], lease)
    held = [coordinator.grant(NODES[0], lease_of((group, 0)), 0.0) for group in range(20, 25)]
    coordinator.heartbeat(NODES[0], beat_of(0, tuple(lease.group for lease in held if lease)), 1.0)
    coordinator.heartbeat(NODES[0], beat_of(0), 40.0)  # it names none of them
    assert coordinator.members[NODES[0]].lifecycle.state is node_lifecycle.NodeState.SUSPENDED
    assert sorted(coordinator.leases_to_release) == [(group, 0) for group in range(20, 25)]
    assert ledger.get_account(NODES[0]).verdict_counts == {"accepted": 20, "expired": 2, "unknown": 3}


def test_an_outage_counts_once_however_many_leases_the_node_had(ledger: Ledger) -> None:
    coordinator = opened(ledger)
    healthy(coordinator, NODES[0], 0)
    held = [coordinator.grant(NODES[0], lease_of((group, 0)), 0.0) for group in range(1, 9)]
    coordinator.heartbeat(NODES[0], beat_of(0, tuple(lease.group for lease in held if lease)), 1.0)
    coordinator.tick(40.0)
    assert coordinator.members[NODES[0]].lifecycle.state is node_lifecycle.NodeState.UNHEALTHY
    assert sorted(coordinator.leases_to_release) == [(group, 0) for group in range(1, 9)]
    assert ledger.get_account(NODES[0]).verdict_counts == {"accepted": 1, "expired": 1, "unknown": 7}


def test_a_verifier_that_asks_again_has_lost_the_reply(ledger: Ledger) -> None:
    coordinator = opened(ledger)
    join(coordinator, NODES[0])
    for verifier in VERIFIERS:
        join(coordinator, verifier)
    lease = granted(coordinator, lease_of((1, 0)))
    coordinator.submit(NODES[0], lease.group, 1, b"a" * 32, 0.0)
    assert coordinator.assign_job(VERIFIERS[0], 0.0).job is not None
    assert coordinator.assign_job(VERIFIERS[1], 0.0).job is None
    again = coordinator.assign_job(VERIFIERS[0], 1.0).job
    assert again is not None
    assert again.lease.group == lease.group


def test_a_file_that_takes_long_to_arrive_is_waited_for(ledger: Ledger) -> None:
    coordinator = opened(ledger)
    healthy(coordinator, NODES[0], 0)
    lease = granted(coordinator, lease_of((1, 0)))
    coordinator.heartbeat(NODES[0], beat_of(0, (lease.group,)), 1.0)
    assert coordinator.begin_upload(NODES[0], deadline=90.0)
    for seconds in (20.0, 40.0, 60.0, 80.0):
        coordinator.heartbeat(NODES[0], beat_of(0), seconds)
    assert coordinator.submit(NODES[0], lease.group, 1, b"d" * 32, 89.0) == "taken"


def test_nobody_is_blamed_for_what_the_coordinator_slept_through(ledger: Ledger) -> None:
    coordinator = opened(ledger)
    healthy(coordinator, NODES[0], 0)
    lease = granted(coordinator, lease_of((1, 0)))
    coordinator.extend_deadlines(3600.0)
    coordinator.tick(3601.0)
    assert coordinator.members[NODES[0]].lifecycle.state is node_lifecycle.NodeState.HEALTHY
    assert coordinator.submit(NODES[0], lease.group, 1, b"d" * 32, 3602.0) == "taken"


def test_a_lease_runs_out_whatever_its_node_says(ledger: Ledger) -> None:
    coordinator = opened(ledger)
    healthy(coordinator, NODES[0], 0)
    lease = granted(coordinator, lease_of((1, 0)))
    for seconds in range(0, 110, 10):
        coordinator.tick(float(seconds))
        coordinator.heartbeat(NODES[0], beat_of(0, (lease.group,), 1e6), float(seconds))
    assert coordinator.leases_to_release == [(1, 0)]
    assert coordinator.submit(NODES[0], lease.group, 1, b"d" * 32, 111.0) == "stale"
