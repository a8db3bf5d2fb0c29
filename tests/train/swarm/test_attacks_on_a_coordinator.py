"""A hostile node, stranger or bystander gets nothing out of a coordinator, and takes nothing from the others."""

import base64
import http.client
import math
import shutil
import socket
import string
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
import swarm_answers
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Raw
from msgspec.structs import replace
from swarms import RUN, World, answers_to, invite

from train.asynchronous.messages import Heartbeat, HeartbeatResponse, LeaseRequest, LeaseResponse, LeaseVerdict
from train.errors import ControllerUnreachable, RunError, TrainError
from train.swarm.client import ResourceGone, SignedClient, create_operator_client
from train.swarm.folder import SwarmFolder
from train.swarm.invites import create_invite
from train.swarm.messages import (
    Ban,
    JoinRequest,
    JoinResponse,
    SwarmStatus,
    VerificationResult,
)
from train.swarm.requests import create_head, sign_request
from train.swarm.signatures import public_key_bytes, read_key

DEEP = b"\x91" * 60_000 + b"\xc0"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Yield a world whose coordinator runs, for requests that leave nothing behind."""
    made = World(tmp_path_factory.mktemp("shared"))
    with made.coordinator():
        yield made
    made.close()


def status_of(world: World) -> SwarmStatus:
    client = create_operator_client(SwarmFolder(world.place))
    try:
        return client.call("/status", None, SwarmStatus)
    finally:
        client.close()


def raw(
    world: World, method: str, path: str, headers: dict[str, str] | None = None, body: bytes = b""
) -> tuple[int, bytes]:
    """Send a request as it is."""
    connection = http.client.HTTPConnection(urlsplit(world.url).netloc, timeout=20)
    try:
        connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in {**(headers or {}), "content-length": str(len(body))}.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def spellings(text: str) -> Iterator[str]:
    """Yield ways to write an invite down that mean the same bytes."""
    yield from (text, f"\x1c{text}", f"{text}\x1f\n", text.replace("-", "+").replace("_", "/"))
    bare = text.rstrip("=")
    for letter in string.ascii_letters if bare != text else "":  # the last letter has bits that mean nothing
        spelled = bare[:-1] + letter + text[len(bare) :]
        if base64.urlsafe_b64decode(spelled) == base64.urlsafe_b64decode(text) and spelled != text:
            yield spelled
            return


def test_one_invite_admits_one_key_however_it_is_written(world: World) -> None:
    with world.coordinator():
        for url in (world.url, f"{world.url}/", f"{world.url}//"):  # of three lengths, two leave bits over
            given, n_admitted = invite(world.place, url=url), 0
            for text in spellings(given.text):
                client = SignedClient(replace(given, coordinator=world.url), Ed25519PrivateKey.generate())
                with suppress(RunError):
                    client.call("/join", JoinRequest(text.encode(), "transformers 5.0"), JoinResponse)
                    n_admitted += 1
                client.close()
            assert n_admitted == 1
        assert len(status_of(world).nodes) == 3


def test_invites_of_others_for_others_and_of_yesterday_admit_nobody(world: World) -> None:
    with world.coordinator():
        run_key, stranger = read_key(world.place / "run.key"), Ed25519PrivateKey.generate()
        form: dict[str, Any] = {"coordinator": world.url, "relays": (), "seconds": 60.0}
        for invited in (
            create_invite(stranger, run=RUN, role="node", **form),
            create_invite(run_key, run="another-run", role="node", **form),
            create_invite(run_key, run=RUN, role="node", **{**form, "seconds": -1.0}),
            create_invite(run_key, run=RUN, role="node", **{**form, "seconds": math.nan}),
        ):
            client = SignedClient(
                replace(invited, run=RUN, public_key=public_key_bytes(run_key)), Ed25519PrivateKey.generate()
            )
            with pytest.raises(RunError):
                client.call("/join", JoinRequest(invited.text.encode(), "transformers 5.0"), JoinResponse)
            client.close()
        node = world.member()
        verifier_invite = invite(world.place, "verifier")
        with pytest.raises(RunError, match="belongs to a node"):  # it would verify itself
            node.client.call("/join", JoinRequest(verifier_invite.text.encode(), "transformers 5.0"), JoinResponse)
        assert len(status_of(world).nodes) == 1


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0, 1e308])
def test_numbers_that_are_none_do_not_hide_the_swarm_from_its_operator(shared: World, value: float) -> None:
    node = shared.member()
    beat = Heartbeat(node.client.name, -(2**63), ((2**63 - 1, -1), (-(2**63), 2**63 - 1)), value, value, value)
    node.client.call("/beat", beat, HeartbeatResponse)
    [found] = [each for each in status_of(shared).nodes if each.node == node.client.node]
    assert 0 <= found.tokens_per_second <= 1e7
    parts = urlsplit(shared.page)
    status, page = raw(shared, "GET", f"{parts.path}?{parts.query}")
    assert status == 200
    assert found.node.hex()[:16] in page.decode()


HOSTILE_BODIES = {
    "deep": DEEP,
    "deep in an unknown field": b"\x81\xa1x" + DEEP,
    "a map without end": b"\xdf\xff\xff\xff\xff",
    "huge numbers": msgspec.msgpack.encode({"loaded": 2**64 - 1, "slots": 2**64 - 1, "invite": b"", "engine": ""}),
    "other types": msgspec.msgpack.encode({"loaded": "0", "slots": [], "invite": 3, "verdict": 7}),
    "no text": b"\x81\xa6engine\xa2\xff\xff",
    "more than is allowed": bytes(10**6),
}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(body, id=name, marks=() if name in ("deep", "other types") else pytest.mark.thorough)
        for name, body in HOSTILE_BODIES.items()
    ],
)
def test_no_body_does_any_harm(world: World, body: bytes) -> None:
    with world.coordinator():
        node, verifier = world.member(), world.member("verifier")
        [lease] = node.ask(slots=1)
        node.upload(lease)
        job = verifier.job()
        for member, path in (
            *((node, path) for path in ("/join", "/work", "/answers", "/beat", "/leave", "/step")),
            *((verifier, path) for path in ("/job", f"/file/{job.lease.group}", f"/verdict/{job.lease.group}")),
        ):
            with suppress(TrainError):
                member.client.call(path, Raw(body), dict)
            node.client._incarnation = verifier.client._incarnation = node.client._incarnation
        assert status_of(world).run == RUN
        node.join()
        node.beat()


def test_a_lease_belongs_to_one_node_and_a_job_to_one_verifier(world: World) -> None:
    with world.coordinator():
        owner, thief = world.member(), world.member()
        honest, hasty = world.member("verifier"), world.member("verifier")
        [lease] = owner.ask(slots=1)
        with pytest.raises(ResourceGone, match="stale"):
            thief.upload(lease)
        thief.ask(slots=1)
        assert thief.upload(lease, answers_to(lease, commitments=b"something else")) == "stale"
        thief.running[lease.group] = lease
        assert thief.beat().leases_to_drop == ((lease.group, 0),)
        assert owner.beat().leases_to_drop == ()
        assert owner.upload(lease) == "taken"
        job = honest.job()
        name = str(lease.group)
        for verdict in (
            VerificationResult(LeaseVerdict("hard", "replay")),
            VerificationResult(LeaseVerdict("accepted")),
        ):
            hasty.client.call(f"/verdict/{name}", verdict, type(None))
        with pytest.raises(RunError):
            hasty.client.fetch(f"/file/{name}", 10**6)
        for node in (owner, thief):
            for path in ("/job", f"/file/{name}"):
                with pytest.raises(TrainError):
                    node.client.call(path, None, dict)
            with pytest.raises(TrainError):
                node.client.call(f"/verdict/{name}", VerificationResult(LeaseVerdict("accepted")), type(None))
        with pytest.raises(TrainError):
            honest.work(slots=1)
        honest.judge(job)
        assert [verdict.outcome for _, verdict in owner.beat().verdicts] == ["accepted"]
        assert thief.beat().verdicts == ()


def test_the_operators_calls_are_the_operators(world: World) -> None:
    with world.coordinator():
        node, verifier = world.member(), world.member("verifier")
        for member in (node, verifier):
            for path, message in (("/status", None), ("/ban", Ban(node.client.node))):
                with pytest.raises(RunError):
                    member.client.call(path, message, dict)
        assert [each.state for each in status_of(world).nodes] == ["probation"]


def test_a_node_cannot_take_all_leases(world: World) -> None:
    with world.coordinator():
        node, verifier = world.member(), world.member("verifier")
        for slots in (0, -1, -(2**63)):
            assert node.work(slots=slots).leases == ()
        [first] = node.ask(slots=2**63 - 1)
        assert [node.work(slots=10**9).leases for _ in range(3)] == [
            (),
            (),
            (),
        ]
        node.upload(first)
        verifier.judge(verifier.job())
        taken = [
            *node.ask(slots=2**63 - 1),
            *node.work(slots=10**9).leases,
        ]
        assert len(taken) <= 2, "a newcomer gets few"


def test_a_node_that_asks_many_times_at_once_gets_no_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    work = world.controller.request_leases

    def slow(request: LeaseRequest) -> LeaseResponse:
        time.sleep(0.2)  # all calls arrive before the first is answered
        return work(request)

    monkeypatch.setattr(world.controller, "request_leases", slow)
    with world.coordinator(), ThreadPoolExecutor(8) as threads:
        node, verifier = world.member(), world.member("verifier")
        [first] = node.ask(slots=1)
        node.upload(first)
        verifier.judge(verifier.job())
        replies = threads.map(lambda _: node.work(slots=3), range(16))
        assert sum(len(reply.leases) for reply in replies) <= 2
        [found] = status_of(world).nodes
        assert found.leases <= 2


@pytest.mark.parametrize("loaded", [-1, 1, 2**62, -(2**63)])
def test_a_node_does_not_choose_a_version_that_is_not_there(shared: World, loaded: int) -> None:
    assert shared.member().work(loaded, 1).leases == ()


def test_a_request_counts_once_here_and_now(world: World) -> None:
    with world.coordinator():
        node = world.member()
        node.beat()
        key, body = node.client._key, msgspec.msgpack.encode(LeaseRequest(node.client.name, 0, 1))
        head = create_head("/work", RUN, node.client.node, body, node.client._incarnation)
        headers = sign_request(head, key)
        assert raw(world, "POST", "/work", headers, body)[0] == 200
        assert raw(world, "POST", "/work", headers, body)[0] == 401  # again
        fresh = sign_request(create_head("/work", RUN, node.client.node, body, node.client._incarnation), key)
        for path, sent, changed in (
            ("/beat", body, {}),
            ("/work?a=b", body, {}),
            ("//work", body, {}),
            ("/work/", body, {}),
            ("/%77ork/" + "0" * 32, body, {}),
            ("/work", body + b"x", {}),
            ("/work", b"", {}),
            ("/work", body, {"x-curate-run": "another-run"}),
            ("/work", body, {"x-curate-time": str(int(time.time() * 1000) + 120_000)}),
            ("/work", body, {"x-curate-node": "ab" * 32}),
            ("/work", body, {"x-curate-run": "\xe9" * 100}),
        ):
            status, _ = raw(world, "POST", path, {**fresh, **changed}, sent)
            assert status in (400, 401, 404), (path, changed, status)
        early = replace(create_head("/work", RUN, node.client.node, body, node.client._incarnation), time_ms=0)
        assert raw(world, "POST", "/work", sign_request(early, key), body)[0] == 401
    first = sign_request(create_head("/beat", RUN, node.client.node, b"", node.client._incarnation), key)
    with world.coordinator():
        assert raw(world, "POST", "/beat", first)[0] == 421  # it was meant for the coordinator before


@pytest.mark.parametrize(
    "path",
    [
        "/runs/../run.key", "/runs/%2e%2e/run.key", "/runs/a-run/../../../run.key", "/runs/a-run/%2e%2e%2frun.key",
        "/runs//run.key", "/runs/a-run/latest/../../../../run.key", "/runs/a-run/0/../../../../run.key",
        "/runs/./latest", "/runs/a-run/00000000000000000000/manifest", "/run.key", "//run.key", "/..%2frun.key",
        "/runs/a-run/0/%00", "/page/../run.key", "/page", "/page?token=", "/page?token=%00", "/page?token=%F0%9F%98%80",
    ],
)  # fmt: skip
def test_no_path_leads_to_the_key(shared: World, path: str) -> None:
    secret = (shared.place / "run.key").read_bytes()
    status, content = raw(shared, "GET", path)
    assert status in (400, 403, 404)
    assert secret.strip() not in content


def test_what_a_node_says_about_itself_stays_text(world: World) -> None:
    with world.coordinator():
        node = world.member()
        words = "<script>alert(1)</script>\"'&\u202e\x1b[2J\n<img src=x onerror=1>" + "x" * 60_000
        given = node.client.invite.text.encode()
        node.client.call("/join", JoinRequest(given, "vllm 0.32.0 cpu", words), JoinResponse)
        for engine in ("vllm <b>", "vllm\n", "\u0000", "other 1", "vllm " + "x" * 1000, "vllm/transformers"):
            with pytest.raises(RunError):
                node.client.call("/join", JoinRequest(given, engine, ""), JoinResponse)
        [found] = status_of(world).nodes
        assert found.hardware.isprintable()
        assert len(found.hardware) <= 200
        parts = urlsplit(world.page)
        _, page = raw(world, "GET", f"{parts.path}?{parts.query}")
        assert b"<script" not in page
        assert b"<img" not in page
        assert "\u202e".encode() not in page


def test_connections_that_say_nothing_keep_nobody_out(world: World) -> None:
    with world.coordinator(), ExitStack() as stack:
        place = urlsplit(world.url)
        node = world.member()
        for number in range(300):
            idle = stack.enter_context(socket.create_connection((place.hostname, place.port)))
            if number % 2:
                idle.sendall(b"POST /answers HTTP/1.1\r\nContent-Length: 1000000\r\n\r\nx")
        node.beat()
        assert len(node.ask(slots=1)) == 1


def test_a_full_disk_ends_neither_the_coordinator_nor_the_lease(world: World) -> None:
    with world.coordinator():
        node, verifier = world.member(), world.member("verifier")
        [lease] = node.ask(slots=1)
        shutil.rmtree(world.place / "uploads")
        with pytest.raises(ControllerUnreachable):
            node.upload(lease)
        (world.place / "uploads").mkdir()
        assert node.upload(lease) == "taken"
        verifier.judge(verifier.job())
        assert [verdict.outcome for _, verdict in node.beat().verdicts] == ["accepted"]


def test_a_node_does_not_choose_thresholds_that_were_measured_for_nobody(world: World) -> None:
    with world.coordinator(thresholds={"vllm/transformers": swarm_answers.bars_of(margin=0.02)}):
        with pytest.raises(RunError, match="not calibrated for engines of the kind transformers; it accepts vllm"):
            world.member()
        world.member("verifier")
