"""What a coordinator refuses over real connections, and what a client does not believe."""

import http.server
import random
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import msgspec
import pytest
import urllib3
from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Raw
from swarms import RUN, Member, World, answers_to, invite

from train.asynchronous.messages import (
    Heartbeat,
    HeartbeatResponse,
    LeaseRequest,
    ReleaseRequest,
    ResultStatus,
    SubmitRequest,
)
from train.errors import ControllerUnreachable, RunError
from train.swarm.client import JoinRequired, SignedClient
from train.swarm.coordinator import intake
from train.swarm.messages import Ban, JoinRequest, SwarmStatus
from train.swarm.requests import RequestHead, create_head, sign_request
from train.swarm.signatures import public_key_bytes

POOL = urllib3.PoolManager(retries=False)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("world"))
    with made.coordinator():
        yield made
    made.close()


@pytest.fixture(scope="module")
def node(world: World) -> Member:
    joined = world.member()
    joined.beat()  # so that it knows the start of the coordinator
    return joined


@pytest.fixture
def fresh(world: World) -> Member:
    """A node that has had no lease and made no calls; an address may not let in many of them at once."""
    return world.member()


def beat_body(node: Member, loaded: int = 0) -> bytes:
    return msgspec.msgpack.encode(Heartbeat(node.client.name, loaded, ()))


def head_of(node: Member, path: str = "/beat", body: bytes | None = None) -> RequestHead:
    client = node.client
    return create_head(path, RUN, client.node, beat_body(node) if body is None else body, client._incarnation)


def post(world: World, path: str, headers: Mapping[str, str], body: bytes) -> urllib3.BaseHTTPResponse:
    return POOL.request("POST", world.url + path, body=body, headers=headers)


def signed(node: Member, head: RequestHead) -> dict[str, str]:
    return sign_request(head, node.client._key)


def test_a_request_counts_once(world: World, node: Member) -> None:
    headers = signed(node, head_of(node))
    assert post(world, "/beat", headers, beat_body(node)).status == 200
    replayed = post(world, "/beat", headers, beat_body(node))
    assert (replayed.status, b"already" in replayed.data) == (401, True)


def test_not_even_the_first_request_of_a_node_counts_twice(world: World, node: Member) -> None:
    member = Member(SignedClient(invite(world.place), Ed25519PrivateKey.generate()))
    member.client._incarnation = node.client._incarnation
    body = msgspec.msgpack.encode(JoinRequest(member.client.invite.text.encode(), "vllm 1", ""))
    headers = signed(member, head_of(member, "/join", body))
    assert post(world, "/join", headers, body).status == 200
    member.leave()
    assert post(world, "/join", headers, body).status == 401
    with pytest.raises(JoinRequired):
        member.beat()


@pytest.mark.parametrize("seconds", [-61, 61, 3600, -(10**6)])
def test_requests_from_other_times_are_refused(world: World, node: Member, seconds: int) -> None:
    head = head_of(node)
    headers = signed(node, msgspec.structs.replace(head, time_ms=max(0, head.time_ms + seconds * 1000)))
    refused = post(world, "/beat", headers, beat_body(node))
    assert (refused.status, b"clock" in refused.data) == (401, True)


def test_requests_for_an_earlier_start_are_refused(world: World, node: Member) -> None:
    headers = signed(node, msgspec.structs.replace(head_of(node), incarnation=b"earlier!"))
    assert post(world, "/beat", headers, beat_body(node)).status == 421


def test_requests_for_another_run_path_or_body_are_refused(world: World, node: Member) -> None:
    elsewhere = signed(node, msgspec.structs.replace(head_of(node), run="another"))
    assert post(world, "/beat", elsewhere, beat_body(node)).status == 401
    assert post(world, "/leave", signed(node, head_of(node)), beat_body(node)).status == 401
    other_body = beat_body(node, 5)
    assert post(world, "/beat", signed(node, head_of(node)), other_body).status == 401
    assert node.beat() == HeartbeatResponse()


def test_what_another_key_has_signed_is_refused(world: World, node: Member) -> None:
    stranger = Ed25519PrivateKey.generate()
    forged = sign_request(msgspec.structs.replace(head_of(node), node=public_key_bytes(stranger)), stranger)
    assert post(world, "/beat", forged, beat_body(node)).status == 401
    mixed = forged | {"x-curate-node": node.client.node.hex()}
    assert post(world, "/beat", mixed, beat_body(node)).status == 401


def test_refusals_that_anybody_can_ask_for_are_not_signed(world: World) -> None:
    reply = post(world, "/beat", {}, b"")
    assert (reply.status, "x-curate-signature" in reply.headers) == (401, False)


@pytest.mark.parametrize(
    "path", ["/", "/nothing", "/beat/00", "/file", "/file/", "/file/zz", "/file/" + "AB" * 16, "/file/1" * 9,
             "/file/../beat", "/verdict/%00", "/join/..%2f", "/work?x=1",
             "/file/" + "1" * 20, "/file/01", "/answers/1", "/upload/1", "/file/\u0661"]
)  # fmt: skip
def test_paths_that_are_no_calls_are_refused(world: World, node: Member, path: str) -> None:
    assert post(world, path, signed(node, head_of(node, path)), beat_body(node)).status in (401, 404)


@pytest.mark.parametrize(
    "body",
    [b"", b"\xc1", b"\x90", b"\x92\x01", random.Random(0).randbytes(100), b"\x91" * 50_000, b"\xdf" + b"\xff" * 8],
)
def test_bodies_that_are_no_messages_are_refused(world: World, node: Member, body: bytes) -> None:
    for path in ("/work", "/beat", "/leave"):
        assert post(world, path, signed(node, head_of(node, path, body)), body).status == 422


def test_a_name_that_is_not_the_signers_is_refused(world: World, node: Member) -> None:
    for path, message in (
        ("/work", LeaseRequest("another", 0, 1)),
        ("/beat", Heartbeat("ab" * 32, 0, ())),
        ("/leave", ReleaseRequest(node.client.name.upper())),
    ):
        with pytest.raises(RunError, match="public key"):
            node.client.call(path, message, object)
    node.beat()


def test_answers_in_the_name_of_another_node_are_refused_and_change_nothing(world: World, fresh: Member) -> None:
    [lease] = fresh.ask(slots=1)
    with pytest.raises(RunError, match="public key"):
        fresh.client.call("/answers", SubmitRequest("another", answers_to(lease)), list[ResultStatus])
    assert fresh.upload(lease) == "taken"


def test_a_body_that_is_too_large_is_refused(world: World, fresh: Member) -> None:
    body = b"x" * (64 * 2**10 + 1)
    refused = post(world, "/beat", signed(fresh, head_of(fresh, "/beat", body)), body)
    assert refused.status == 413
    [lease] = fresh.ask(slots=1)
    large = b"x" * 10**6
    path = "/answers"
    with pytest.raises((RunError, ControllerUnreachable), match="bytes|reached"):
        fresh.client.call(path, Raw(large), str)
    refused = POOL.request("POST", world.url + path, headers=signed(fresh, head_of(fresh, path, large)),
                           body=iter([large]))  # fmt: skip
    assert refused.status in (413, 429)
    assert fresh.upload(lease) == "taken"


def test_a_body_that_does_not_arrive_is_given_up(world: World, node: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "_MIN_SECONDS", 0.3)
    monkeypatch.setattr(intake, "_MIN_UPLOAD_RATE", 10**9)
    host, port = world.url.removeprefix("http://").split(":")
    headers = "".join(f"{name}: {value}\r\n" for name, value in signed(node, head_of(node)).items())
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(f"POST /beat HTTP/1.1\r\nhost: {host}\r\ncontent-length: 9\r\n{headers}\r\n12".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 408")


def test_a_node_that_calls_too_often_has_to_wait_and_the_others_have_not(world: World, fresh: Member) -> None:
    other = world.member()
    fresh.beat()
    statuses = []
    for _ in range(260):
        statuses.append(post(world, "/beat", signed(fresh, head_of(fresh)), beat_body(fresh)).status)
    assert statuses[0] == 200
    assert 429 in statuses
    other.beat()


def test_strangers_can_only_join_and_not_too_often(world: World) -> None:
    key = Ed25519PrivateKey.generate()
    client = SignedClient(invite(world.place), key)
    for path, message in (
        ("/work", LeaseRequest(client.name, 0, 1)),
        ("/answers", SubmitRequest(client.name, ())),
        ("/beat", Heartbeat(client.name, 0, ())),
        ("/job", None),
        ("/leave", ReleaseRequest(client.name)),
    ):
        with pytest.raises(ControllerUnreachable, match="join first"):
            client.call(path, message, object)


def test_invites_that_are_forged_old_or_used_admit_nobody(world: World, node: Member) -> None:
    def tried(text: str) -> str:
        client = SignedClient(invite(world.place), Ed25519PrivateKey.generate())
        with pytest.raises(RunError) as refused:
            client.call("/join", JoinRequest(text.encode(), "vllm 1", ""), object)
        return str(refused.value)

    good = invite(world.place)
    assert "not an invite" in tried("nothing")
    assert "not an invite" in tried(good.text[:-8] + "AAAAAAA=")
    assert "not an invite" in tried(good.text + good.text)
    assert "not an invite" in tried("\N{SNOWMAN}")
    assert "has expired" in tried(invite(world.place, seconds=-1).text)
    assert "another key has used" in tried(node.client.invite.text)


def test_nodes_do_nothing_that_is_the_operators_or_the_verifiers(world: World, node: Member) -> None:
    for path, message in (("/status", None), ("/ban", Ban(node.client.node)), ("/job", None)):
        with pytest.raises(RunError, match="refuses"):
            node.client.call(path, message, SwarmStatus)
    verifier = world.member("verifier")
    with pytest.raises(RunError, match="refuses"):
        verifier.client.call("/status", None, SwarmStatus)
    with pytest.raises(ControllerUnreachable):
        verifier.work(slots=1)


def test_a_node_cannot_touch_the_lease_of_another(world: World, fresh: Member) -> None:
    other = world.member()
    [lease] = fresh.ask(slots=1)
    other.ask(slots=1)
    assert other.upload(lease) == "stale"
    with pytest.raises(RunError):
        other.client.fetch(f"/file/{lease.group}", 1000)
    assert fresh.upload(lease) == "taken"


def test_pages_are_shown_to_the_operator_alone(world: World) -> None:
    assert POOL.request("GET", world.page).status == 200
    for path in (
        "/page",
        "/page?token=",
        "/page?token=x",
        "/page?token=%C3%A9",
        "/status",
        "/ledger.sqlite",
        "/run.key",
    ):
        assert POOL.request("GET", world.url + path).status in (403, 404)
    for path in ("/runs/../run.key", "/runs/a-run/../../run.key", "/runs/%2e%2e/run.key", "/runs/a-run/0/%2e%2e"):
        # type: ignore[arg-type]
        connection = socket.create_connection(world.url.removeprefix("http://").split(":"), 10)
        with connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
            assert b" 404 " in connection.recv(1000).partition(b"\r\n")[0] + b" "
    assert POOL.request("GET", f"{world.url}/runs/{RUN}/latest").status == 200


@contextmanager
def between(change: "type[http.server.BaseHTTPRequestHandler]") -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), change)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def replying(status: int, body: bytes, headers: Mapping[str, str]) -> "type[http.server.BaseHTTPRequestHandler]":
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(status)
            for name, value in {"content-length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    return Handler


@pytest.mark.parametrize("status", [200, 204, 302, 400, 403, 404, 409, 421, 500])
def test_a_client_believes_no_reply_that_the_run_has_not_signed(world: World, node: Member, status: int) -> None:
    real = post(world, "/beat", signed(node, head_of(node)), beat_body(node))
    of_another = {"x-curate-signature": real.headers["x-curate-signature"], "location": "http://127.0.0.1:1/"}
    body = b"" if status == 204 else real.data
    for headers in ({}, of_another, {"x-curate-signature": "zz"}):
        with between(replying(status, body, headers)) as url:
            client = SignedClient(msgspec.structs.replace(node.client.invite, coordinator=url), node.client._key)
            with pytest.raises(ControllerUnreachable, match="without its signature"):
                client.call("/beat", Heartbeat(client.name, 0, ()), HeartbeatResponse)


def test_a_client_reads_no_more_than_it_wants(world: World, node: Member) -> None:
    with between(replying(200, b"x" * 10**6, {})) as url:
        client = SignedClient(msgspec.structs.replace(node.client.invite, coordinator=url), node.client._key)
        with pytest.raises(ControllerUnreachable, match="not complete after 1000 bytes"):
            client.fetch("/file/00", 1000)


def test_random_requests_end_nothing(world: World, node: Member) -> None:
    host, port = world.url.removeprefix("http://").split(":")
    headers = "".join(f"{name}: {value}\r\n" for name, value in signed(node, head_of(node)).items()).encode()
    for number in range(40):
        noise = blake3(bytes([number])).digest(200)
        with socket.create_connection((host, int(port)), 10) as connection:
            connection.sendall((b"POST /beat HTTP/1.1\r\n" + headers)[: 7 * number] + noise)
    node.beat()


def test_uploads_that_come_at_once_are_one(world: World, fresh: Member) -> None:
    [lease] = fresh.ask(slots=1)
    receipts: list[str] = []

    def upload() -> None:
        try:
            receipts.append(fresh.upload(lease))
        except ControllerUnreachable:
            receipts.append("later")

    threads = [threading.Thread(target=upload) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert receipts.count("taken") == 1
    assert set(receipts) <= {"taken", "again", "later"}
