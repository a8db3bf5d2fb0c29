"""A coordinator between a trainer and nodes that nobody trusts, over real connections."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import forked
import msgspec
import pytest
from click.testing import CliRunner
from swarms import RUN, TERMS, Member, World, invite, publish

from curate.commands.main import main
from train.asynchronous.server import ControllerServer
from train.errors import ControllerUnreachable, RunError
from train.sampling.protocol import SamplingParams
from train.swarm.ledger.ledger import LedgerAudit, audit_ledger, read_rows
from train.swarm.messages import CurrentVersion, NodeLeaseRequest, NodeLeaseResponse
from train.swarm.protocol.client import JoinRequired, ResourceGone
from train.swarm.signatures import public_key_bytes, read_key
from train.swarm.verdict import LeaseVerdict


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def audited(world: World) -> LedgerAudit:
    return audit_ledger(read_rows(world.place / "ledger.sqlite"), public_key_bytes(read_key(world.place / "run.key")))


def wait_for(world: World, figure: str, value: float) -> None:
    """Wait until the trainer has heard."""
    until = time.monotonic() + 10
    while world.controller.metrics()[figure] != value:
        assert time.monotonic() < until, f"{figure} is {world.controller.metrics()[figure]}, not {value}"
        time.sleep(0.02)


def test_what_a_verifier_accepts_reaches_the_trainer(world: World) -> None:
    with world.coordinator():
        node, verifier = world.member(), world.member("verifier")
        for _ in range(2):
            [lease] = node.ask(slots=1)
            assert lease.lease.sampling_params.verifiable
            assert node.upload(lease) == "taken"
            assert node.upload(lease) == "again"
            verifier.judge(verifier.job())
        batch = world.controller.wait_for_batch(0, 20)
        assert [len(group) for group in batch] == [3, 3]
        orders = node.beat()
        assert [verdict.outcome for _, verdict in orders.verdicts] == ["accepted", "accepted"]
        assert node.client.call("/step", None, CurrentVersion).version == 0
    found = audited(world)
    assert found.fault == ""
    assert found.accounts.nodes[node.client.node].earned == 24


def test_what_is_rejected_is_asked_again_with_the_same_prompt_and_seeds(world: World) -> None:
    with world.coordinator():
        cheat, verifier = world.member(), world.member("verifier")
        [lease] = cheat.ask(slots=1)
        cheat.upload(lease)
        verifier.judge(verifier.job(), LeaseVerdict("hard", "replay"))
        with pytest.raises(RunError, match="banned"):
            cheat.beat()
        with pytest.raises(RunError, match="banned"):
            cheat.join()
        wait_for(world, "groups/running", 0)
        honest = world.member()
        [again] = honest.ask(slots=1)
        assert again.lease == lease.lease
        assert again.id != lease.id
        assert honest.upload(again) == "taken"
        verifier.judge(verifier.job())
        wait_for(world, "groups/ready", 1)
    assert audited(world).accounts.nodes[cheat.client.node].stake == 0


def test_a_group_is_never_with_two_nodes(world: World) -> None:
    seen: list[tuple[int, ...]] = []
    with world.coordinator():
        verifier, members = world.member("verifier"), [world.member() for _ in range(4)]
        stop = threading.Event()

        def work(node: Member) -> None:
            while not stop.is_set():
                with suppress(ControllerUnreachable):
                    reply = node.client.call("/lease", NodeLeaseRequest(0, 10), NodeLeaseResponse)
                    for lease in reply.leases:
                        seen.append(lease.lease.seeds)
                        node.upload(lease)
                    stop.wait(0.1)

        def verify() -> None:
            while not stop.is_set():
                with suppress(ControllerUnreachable, ResourceGone, AssertionError):
                    verifier.judge(verifier.job())

        threads = [threading.Thread(target=work, args=(node,)) for node in members]
        threads.append(threading.Thread(target=verify, daemon=True))
        for thread in threads:
            thread.start()
        try:
            world.controller.wait_for_batch(0, 30)
        finally:
            stop.set()
            for thread in threads[:-1]:
                thread.join()
    assert len(seen) == len(set(seen)), "a group was answered twice"
    assert audited(world).fault == ""


def test_a_trainer_that_is_gone_gets_its_answers_when_it_is_back(world: World) -> None:
    with world.coordinator():
        node, verifier = world.member(), world.member("verifier")
        [lease] = node.ask(slots=1)
        address = world.server.url.removeprefix("http://")
        world.server.close(run_ended=False)
        node.upload(lease)
        verifier.judge(verifier.job())
        assert node.client.call("/lease", NodeLeaseRequest(0, 1), NodeLeaseResponse).leases == ()
        world.server = ControllerServer(world.controller, address, token=None, run=RUN, spec=TERMS)
        wait_for(world, "groups/ready", 1)
        assert node.ask(slots=1)


def test_nodes_hear_that_the_run_is_over_and_the_coordinator_ends(world: World) -> None:
    with world.coordinator() as thread:
        node = world.member()
        [lease] = node.ask(slots=1)
        world.controller.close()
        until = time.monotonic() + 20
        while not (orders := node.beat()).run_ended:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert orders.lease_ids_to_drop == (lease.id,)
        thread.join(20)
        assert not thread.is_alive()


def test_new_weights_are_published_and_named_in_the_ledger(world: World) -> None:
    with world.coordinator():
        node, verifier = world.member(), world.member("verifier")
        for _ in range(2):
            [lease] = node.ask(slots=1)
            node.upload(lease)
            verifier.judge(verifier.job())
        world.controller.wait_for_batch(0, 20)
        publish(world.controller, world.folder, 1)
        [lease] = node.ask(loaded=1, slots=1)
        assert lease.lease.version == 1
        assert node.client.call("/step", None, CurrentVersion).version == 1
        assert (world.place / "store" / "runs" / RUN / "latest").exists()
    assert audited(world).accounts.version == 1


@contextmanager
def process(world: World) -> Iterator["subprocess.Popen[str]"]:
    """Run the command in a process of its own."""
    words = ["coordinator", str(world.place), "--controller", world.server.url, "--listen", "127.0.0.1:0"]
    running = forked.Popen(
        [sys.executable, "-m", "cli", *words, "--vocabulary", "1000"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert running.stdout is not None
        line = running.stdout.readline()
        assert line.startswith("listening on http://127.0.0.1:"), line
        yield running
    finally:
        running.kill()
        running.communicate()


def moved(node: Member, world: World) -> Member:
    """The same node, which has heard of the coordinator's new address."""
    client = type(node.client)(
        msgspec.structs.replace(node.client.invite, coordinator=invite(world.place).coordinator), node.client._key
    )
    return Member(client)


def test_a_coordinator_that_is_killed_in_mid_lease_goes_on(world: World) -> None:
    with process(world) as running:
        node, verifier = world.member(), world.member("verifier")
        [first] = node.ask(slots=1)
        node.upload(first)
        verifier.judge(verifier.job())
        wait_for(world, "groups/ready", 1)
        [submitted] = node.ask(slots=1)
        node.upload(submitted)
        [leased] = node.ask(slots=1)
        running.kill()
        running.wait()
        with pytest.raises(ControllerUnreachable):
            node.beat()
    with process(world):
        node, verifier = moved(node, world), moved(verifier, world)
        with pytest.raises(JoinRequired):
            node.beat()
        node.join()
        verifier.join()
        assert node.upload(leased) == "late"
        with pytest.raises(ResourceGone):
            verifier.client.fetch(f"/file/{submitted.id.hex()}", 1000)
        lost = {lease.lease.seeds for lease in (submitted, leased)}
        again: set[tuple[int, ...]] = set()
        while len(again) < 2:
            [lease] = node.ask(slots=1)
            again.add(lease.lease.seeds)
            node.upload(lease)
            verifier.judge(verifier.job())
        assert again == lost
        assert len(world.controller.wait_for_batch(0, 20)) == 2
    found = audited(world)
    assert found.fault == ""
    account = found.accounts.nodes[node.client.node]
    assert (account.n_leases, dict(account.verdict_counts)) == (5, {"accepted": 3, "unknown": 2})
    assert account.state == "healthy"


def test_the_operator_sees_bans_and_audits(world: World) -> None:
    def curate(*words: str) -> tuple[int, str]:
        shown = CliRunner().invoke(main, list(words))
        return shown.exit_code, shown.output

    place = str(world.place)
    with world.coordinator():
        node = world.member()
        node.ask(slots=1)
        assert curate("ledger", "audit", place)[0] == 0, "an audit waits for the coordinator to end"
        name = node.client.node.hex()
        status, printed = curate("swarm", "status", place)
        assert (status, f"{name[:16]}" in printed, "open 1" in printed) == (0, True, True), printed
        assert curate("swarm", "ban", place, "ffff")[0] == 1
        assert curate("swarm", "ban", place, name[:12]) == (0, f"{name} is banned\n")
        with pytest.raises(RunError, match="banned"):
            node.beat()
        assert "banned" in curate("swarm", "status", place)[1]
    status, printed = curate("ledger", "audit", place)
    assert (status, "banned" in printed) == (0, True), printed
    head = printed.split()[-1]
    assert curate("ledger", "audit", place, "--seen", head)[0] == 0
    assert curate("ledger", "audit", place, "--seen", "00" * 32)[0] == 1
    assert curate("ledger", "audit", place, "--seen", "zz")[0] == 1
    assert curate("ledger", "audit", f"{place}/ledger.sqlite")[0] == 1
    assert curate("swarm", "status", place)[0] == 1


def test_a_stranger_cannot_lose_the_samples_of_an_evaluation(world: World) -> None:
    """It gets none before its work was accepted; and what nodes give back is drawn by others."""
    done: list[tuple[int, object]] = []
    sampling = SamplingParams(1.0, 1.0, 8)
    prompts = [((1, 2, number), number) for number in range(5)]
    with world.coordinator():
        stranger, node, verifier = world.member(), world.member(), world.member("verifier")
        drawing = threading.Thread(
            target=lambda: done.extend(world.controller.create_sampler().sample(prompts, sampling))
        )
        drawing.start()
        [lease] = stranger.ask(slots=10)
        assert len(lease.lease.seeds) == 3, "a stranger samples for an evaluation"
        stranger.client.call("/leave", None, type(None))
        with pytest.raises(ControllerUnreachable, match="suspended"):
            stranger.join()
        while not done or len(done) < len(prompts):
            for lease in node.ask(slots=3):
                node.upload(lease)
                verifier.judge(verifier.job())
        drawing.join(20)
    assert sorted(index for index, _ in done) == list(range(5))
    assert not any(isinstance(completion, ValueError) for _, completion in done)


@pytest.mark.parametrize("params", [{"temperature": 0.0}, {"top_p": 0.95}])
def test_samples_that_cannot_be_verified_are_refused_at_the_start(world: World, params: dict[str, float]) -> None:
    greedy = SamplingParams(**{"temperature": 1.0, "top_p": 1.0, "max_tokens": 8, **params})
    world.server.close(run_ended=False)
    spec = msgspec.structs.replace(TERMS, sampling=(SamplingParams(1.0, 1.0, 8, logprobs=True), greedy))
    world.server = ControllerServer(world.controller, "127.0.0.1:0", token=None, run=RUN, spec=spec)
    with pytest.raises(AssertionError, match=r"set evaluation.temperature above 0"), world.coordinator():
        pass


def test_an_engine_with_options_that_load_code_is_refused_at_the_start(world: World) -> None:
    world.server.close(run_ended=False)
    spec = msgspec.structs.replace(TERMS, vllm={"max_model_len": 128, "trust_remote_code": True})
    world.server = ControllerServer(world.controller, "127.0.0.1:0", token=None, run=RUN, spec=spec)
    with pytest.raises(AssertionError, match="trust_remote_code"), world.coordinator():
        pass


def test_a_folder_belongs_to_one_run(world: World, tmp_path: Path) -> None:
    with world.coordinator():
        pass
    world.server.close(run_ended=False)
    other = msgspec.structs.replace(TERMS, run="another")
    world.server = ControllerServer(world.controller, "127.0.0.1:0", token=None, run="another", spec=other)
    with pytest.raises(AssertionError, match="another swarm"), world.coordinator():
        pass


def test_two_coordinators_cannot_share_a_folder(world: World) -> None:
    with world.coordinator(), pytest.raises(AssertionError, match="another coordinator"), world.coordinator():
        pass
