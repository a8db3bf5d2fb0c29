"""A coordinator between a trainer and nodes that nobody trusts, over real connections."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import forked
import msgspec
import pytest
from curate_command import curate
from msgspec import Raw
from swarm_answers import encode_lease_file
from swarms import RUN, TERMS, Member, World, answers_to, invite, publish
from waiting import becomes

from train.asynchronous.controller_threads import RetryPolicy
from train.asynchronous.messages import LeaseVerdict, SampleResult, pack_tokens
from train.asynchronous.server import ControllerServer
from train.errors import ControllerUnreachable, RunError
from train.sampling.protocol import SamplingParams
from train.swarm.broadcast.manifest import LatestVersion
from train.swarm.client import JoinRequired, ResourceGone
from train.swarm.ledger import LedgerAudit, audit_ledger, read_rows
from train.swarm.messages import VerificationJobResponse
from train.swarm.signatures import public_key_bytes, read_key


def audited(world: World) -> LedgerAudit:
    return audit_ledger(read_rows(world.place / "ledger.sqlite"), public_key_bytes(read_key(world.place / "run.key")))


def wait_for(world: World, figure: str, value: float) -> None:
    """Wait until the trainer has heard."""
    collect = world.controller.collect_metrics
    assert becomes(lambda: collect()[figure] == value), collect()[figure]


def test_what_a_verifier_accepts_reaches_the_trainer(world: World) -> None:
    with world.coordinator():
        node, verifier = world.member(), world.member("verifier")
        for _ in range(2):
            [lease] = node.ask(slots=1)
            assert lease.sampling_params.verifiable
            assert node.upload(lease) == "taken"
            assert node.upload(lease) == "again"
            verifier.judge(verifier.job())
        batch = world.controller.wait_for_batch(0, 20)
        assert [len(group) for group in batch] == [3, 3]
        orders = node.beat()
        assert [verdict.outcome for _, verdict in orders.verdicts] == ["accepted", "accepted"]
        assert node.client.call("/step", None, LatestVersion).version == 0
    found = audited(world)
    assert found.fault == ""
    assert found.accounts.nodes[node.client.node].earned == 24


def test_weights_go_to_the_bucket_that_was_named_and_not_into_the_folder(world: World) -> None:
    bucket = world.folder / "bucket"
    with world.coordinator(store=f"file://{bucket}"):
        node = world.member()
        node.ask(slots=1)  # once there are weights
        assert node.client.call("/step", None, LatestVersion).version == 0
    assert (bucket / "runs" / RUN / "latest").exists()
    assert not (world.place / "store").exists()


@pytest.mark.parametrize("url", ["ftp://weights", "s3://", "weights"])
def test_a_store_that_there_cannot_be_is_one_sentence(world: World, url: str) -> None:
    words = ["coordinator", str(world.place), "--controller", world.server.url, "--listen", "127.0.0.1:0"]
    done = curate(*words, "--relay", "http://relay", "--store", url, "--vocabulary", "10")
    assert done.exit_code == 1
    [said] = [line for line in done.stderr.splitlines() if line.startswith("Error:")]
    assert said.startswith(f"Error: --store {url}: ")
    assert said.endswith("Give a URL such as s3://BUCKET/FOLDER or gs://BUCKET")
    assert "--store needs --relay" in curate(*words, "--store", "s3://weights").stderr


def test_answers_come_one_by_one_or_together_and_the_first_to_each_seed_stays(world: World) -> None:
    with world.coordinator():
        node, verifier = world.member(), world.member("verifier")
        [lease] = node.ask(slots=1)
        first, second, third = answers_to(lease)
        assert node.submit(third) == ["taken"]
        assert verifier.client.call("/job", None, VerificationJobResponse).job is None, "it is not complete"
        assert node.submit(first, third) == ["taken", "again"]
        assert node.submit(second) == ["taken"]
        assert node.submit(first, second, third) == ["again"] * 3
        job = verifier.job()
        assert verifier.client.fetch(f"/file/{lease.group}", 10**6) == encode_lease_file((first, second, third))
        verifier.judge(job)
        assert node.submit(second) == ["again"], "the reply may have been lost"
        assert [verdict.outcome for _, verdict in node.beat().verdicts] == ["accepted"]
        assert list((world.place / "uploads").iterdir()) == []


@pytest.mark.parametrize("is_complete", [False, True])
def test_a_second_answer_to_a_seed_that_differs_bans(world: World, is_complete: bool) -> None:
    with world.coordinator():
        node = world.member()
        [lease] = node.ask(slots=1)
        answers = answers_to(lease)
        assert set(node.submit(*(answers if is_complete else answers[:1]))) == {"taken"}
        other = msgspec.structs.replace(answers[0], commitments=b"other")
        assert node.submit(other) == ["broken"]
        with pytest.raises(RunError, match=r"banned: a lease was rejected \(different\)"):
            node.beat()
        assert list((world.place / "uploads").iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tokens": pack_tokens([5000] * 4)}, "tokens"),
        ({"number": 3}, "file"),
        ({"number": -1}, "file"),
        ({"attempt": 1}, "file"),
        ({"finish_reason": "refused"}, "length"),
        ({"logprobs": b""}, "length"),
    ],
)
def test_answers_that_make_no_sense_are_rejected_without_a_verifier(
    world: World, changes: dict[str, Any], reason: str
) -> None:
    with world.coordinator():
        node = world.member()
        [lease] = node.ask(slots=1)
        assert node.upload(lease, answers_to(lease, **changes)) == "broken"
        with pytest.raises(RunError, match=f"rejected .{reason}.$"):
            node.beat()
        wait_for(world, "groups/running", 0)


def test_answers_in_many_bodies_are_bounded_by_their_lease(world: World) -> None:
    with world.coordinator():
        node = world.member()
        [lease] = node.ask(slots=1)
        large = [msgspec.structs.replace(answer, commitments=bytes(30_000)) for answer in answers_to(lease)]
        assert [node.submit(answer) for answer in large] == [["taken"], ["taken"], ["broken"]]
        with pytest.raises(RunError, match=r"rejected \(size\)"):
            node.beat()


def test_a_body_that_its_node_has_signed_and_that_is_none_bans(world: World) -> None:
    with world.coordinator():
        node = world.member()
        node.ask(slots=1)
        with pytest.raises(RunError, match="SubmitRequest"):
            node.client.call("/answers", Raw(b"\x91" * 400), dict)
        with pytest.raises(RunError, match=r"rejected \(file\)"):
            node.beat()


def test_one_refusal_of_the_prompt_stands_for_all_answers(world: World) -> None:
    with world.coordinator():
        node = world.member()
        [lease] = node.ask(slots=1)
        refusal = SampleResult(lease.group, 0, 0, b"", b"", (), "refused")
        assert node.submit(refusal) == ["broken"], "the prompt leaves room"
        with pytest.raises(RunError, match=r"rejected \(length\)"):
            node.beat()


def test_the_number_of_a_lease_tells_nothing(world: World) -> None:
    with world.coordinator():
        nodes = [world.member() for _ in range(4)]
        leases = [node.ask(slots=1)[0] for node in nodes]
    assert {lease.attempt for lease in leases} == {0}
    assert len({lease.group for lease in leases}) == 4
    assert all(0 <= lease.group < 2**63 for lease in leases)
    assert max(lease.group for lease in leases) > 2**40


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
        assert msgspec.structs.replace(again, group=lease.group) == lease
        assert again.group != lease.group
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
                    reply = node.work(slots=10)
                    for lease in reply.leases:
                        seen.append(lease.seeds)
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
        assert node.work(slots=1).leases == ()
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
        assert orders.leases_to_drop == ((lease.group, 0),)
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
        assert lease.version == 1
        assert node.client.call("/step", None, LatestVersion).version == 1
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
        with pytest.raises(ResourceGone, match="stale"):
            node.upload(leased)
        with pytest.raises(ResourceGone):
            verifier.client.fetch(f"/file/{submitted.group}", 1000)
        lost = {lease.seeds for lease in (submitted, leased)}
        again: set[tuple[int, ...]] = set()
        while len(again) < 2:
            [lease] = node.ask(slots=1)
            again.add(lease.seeds)
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
    def operate(*words: str) -> tuple[int, str]:
        shown = curate(*words)
        return shown.exit_code, shown.output

    place = str(world.place)
    with world.coordinator():
        node = world.member()
        node.ask(slots=1)
        assert operate("ledger", "audit", place)[0] == 0, "an audit waits for the coordinator to end"
        name = node.client.node.hex()
        status, printed = operate("swarm", "status", place)
        assert (status, f"{name[:16]}" in printed, "open 1" in printed) == (0, True, True), printed
        assert operate("swarm", "ban", place, "ffff")[0] == 1
        assert operate("swarm", "ban", place, name[:12]) == (0, f"{name} is banned\n")
        with pytest.raises(RunError, match="banned"):
            node.beat()
        assert "banned" in operate("swarm", "status", place)[1]
    status, printed = operate("ledger", "audit", place)
    assert (status, "banned" in printed) == (0, True), printed
    head = printed.split()[-1]
    assert operate("ledger", "audit", place, "--seen", head)[0] == 0
    assert operate("ledger", "audit", place, "--seen", "00" * 32)[0] == 1
    assert operate("ledger", "audit", place, "--seen", "zz")[0] == 1
    assert operate("ledger", "audit", f"{place}/ledger.sqlite")[0] == 1
    assert operate("swarm", "status", place)[0] == 1


def test_the_status_names_leases_that_ended_with_a_restart(world: World) -> None:
    with world.coordinator():
        assert world.member().ask()
    with world.coordinator():
        done = curate("swarm", "status", world.place)
    assert (done.exit_code, "restarted 1" in done.output) == (0, True), done.output


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
        assert len(lease.seeds) == 3, "a stranger samples for an evaluation"
        stranger.leave()
        with pytest.raises(ControllerUnreachable, match="suspended"):
            stranger.join()
        while not done or len(done) < len(prompts):
            for lease in node.ask(slots=3):
                node.upload(lease)
                verifier.judge(verifier.job())
        drawing.join(20)
    assert sorted(index for index, _ in done) == list(range(5))
    assert not any(isinstance(completion, ValueError) for _, completion in done)


def test_a_suspended_node_waits_for_the_end_of_its_suspension_whatever_its_patience(world: World) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> bool:
        pauses.append(seconds)
        return len(pauses) < 3

    retry = RetryPolicy(0.0, pause)
    with world.coordinator():
        node = world.member()
        assert node.ask()
        node.leave()
        assert retry.call_with_retries(node.join) is None
        assert len(pauses) == 3
    with pytest.raises(ControllerUnreachable, match="--patience SECONDS"):
        retry.call_with_retries(node.join)


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
