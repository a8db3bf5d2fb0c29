"""Requests and replies are worth something only as they were signed: once, now, for this run, path, body and node."""

import time
from pathlib import Path

import msgspec
import pytest
from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from curate_command import curate

from sandbox.service.service_errors import Unauthorized
from train.errors import ConfigError
from train.swarm.coordinator.intake import RetryLater
from train.swarm.coordinator.nonces import MAX_CLOCK_SKEW_SECONDS, NONCE_TTL_SECONDS, NonceCache, StaleIncarnation
from train.swarm.folder import SwarmAddress, SwarmFolder
from train.swarm.invites import Invite, create_invite, read_invite
from train.swarm.requests import (
    DIGEST,
    NODE,
    NONCE,
    RUN,
    SIGNATURE,
    START,
    TIME,
    RequestHead,
    check_reply,
    check_signature,
    create_head,
    read_head,
    sign_reply,
    sign_request,
)
from train.swarm.signatures import BadSignature, append_signature, create_key_file, public_key_bytes

KEY, RUN_KEY = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
START_HERE = b"startnow"
BODY = b"the body"


def head_now() -> RequestHead:
    return create_head("/beat", "run", public_key_bytes(KEY), BODY, START_HERE)


def test_a_request_arrives_as_it_was_signed() -> None:
    sent = head_now()
    head, signature = read_head("/beat", sign_request(sent, KEY))
    assert head == sent
    assert head.digest == blake3(BODY).digest()
    check_signature(head, signature)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (RUN, "other"),
        (NODE, "ab" * 32),
        (TIME, "17"),
        (NONCE, "0" * 32),
        (START, "0" * 16),
        (DIGEST, "0" * 64),
        (SIGNATURE, "0" * 128),
    ],
)
def test_no_header_of_a_request_can_be_changed(name: str, value: str) -> None:
    headers = sign_request(head_now(), KEY) | {name: value}
    head, signature = read_head("/beat", headers)
    with pytest.raises(BadSignature):
        check_signature(head, signature)


@pytest.mark.parametrize("path", ["/leave", "/beat/", "/upload/00", ""])
def test_a_request_is_worth_nothing_for_another_path(path: str) -> None:
    head, signature = read_head(path, sign_request(head_now(), KEY))
    with pytest.raises(BadSignature):
        check_signature(head, signature)


@pytest.mark.parametrize("name", [NODE, TIME, NONCE, START, DIGEST, SIGNATURE])
@pytest.mark.parametrize("value", ["", "zz", "١" * 13, "-5", "a" * 10_000, "AB" * 32, "\n" + "0" * 32])
def test_headers_that_make_no_sense_are_refused(name: str, value: str) -> None:
    with pytest.raises(BadSignature, match=name):
        read_head("/beat", sign_request(head_now(), KEY) | {name: value})


def test_a_signature_for_something_else_is_no_request() -> None:
    head = head_now()
    parts = ["POST", "/beat", head.node, head.time_ms, head.nonce, START_HERE, "run", blake3(BODY).digest()]
    covered = msgspec.msgpack.encode(parts)
    for domain in ("curate-reply-1", "curate-ledger-1", "curate-weights-1", ""):
        with pytest.raises(BadSignature):
            check_signature(head, append_signature(domain, covered, KEY)[-64:])
    check_signature(head, append_signature("curate-request-1", covered, KEY)[-64:])


def test_a_request_comes_once() -> None:
    nonces, head, now = NonceCache(START_HERE), head_now(), time.time()
    nonces.check(head, now)
    nonces.record(head, now)
    with pytest.raises(Unauthorized, match="already"):
        nonces.record(head, now + MAX_CLOCK_SKEW_SECONDS)


def test_a_nonce_is_remembered_for_longer_than_its_request_could_be_taken() -> None:
    assert NONCE_TTL_SECONDS > 2 * MAX_CLOCK_SKEW_SECONDS


@pytest.mark.parametrize("seconds", [-MAX_CLOCK_SKEW_SECONDS - 1, MAX_CLOCK_SKEW_SECONDS + 1, 1e9, -1e9])
def test_requests_from_other_times_are_refused(seconds: float) -> None:
    head = msgspec.structs.replace(head_now(), time_ms=int(max(0.0, time.time() + seconds) * 1000))
    with pytest.raises(Unauthorized, match="clock"):
        NonceCache(START_HERE).check(head, time.time())


def test_requests_for_an_earlier_start_are_refused() -> None:
    with pytest.raises(StaleIncarnation):
        NonceCache(b"restartd").check(head_now(), time.time())


def test_a_node_that_sends_too_much_takes_nothing_from_others() -> None:
    nonces, now = NonceCache(START_HERE, max_per_node=3), time.time()
    for _ in range(3):
        nonces.record(head_now(), now)
    with pytest.raises(RetryLater):
        nonces.record(head_now(), now)
    nonces.record(msgspec.structs.replace(head_now(), node=b"o" * 32), now)
    nonces.record(head_now(), now + NONCE_TTL_SECONDS + 1)
    assert len(nonces) == 1


def test_a_reply_fits_one_request() -> None:
    headers = sign_reply(b"s" * 64, 200, BODY, RUN_KEY)
    check_reply(b"s" * 64, 200, BODY, headers, public_key_bytes(RUN_KEY))
    for request, status, body, public in (
        (b"t" * 64, 200, BODY, RUN_KEY), (b"s" * 64, 403, BODY, RUN_KEY), (b"s" * 64, 200, b"", RUN_KEY),
        (b"s" * 64, 200, BODY, KEY),
    ):  # fmt: skip
        with pytest.raises(BadSignature):
            check_reply(request, status, body, headers, public_key_bytes(public))
    for signature in ("", "zz", "00" * 64):
        with pytest.raises(BadSignature):
            check_reply(b"s" * 64, 200, BODY, {SIGNATURE: signature}, public_key_bytes(RUN_KEY))


def invite() -> Invite:
    return create_invite(RUN_KEY, run="r", coordinator="http://c:1", relays=("http://r",), role="node", seconds=60)


def test_an_invite_says_what_the_run_has_signed() -> None:
    made = invite()
    assert read_invite(f" {made.text}\n") == made == read_invite(made.text, public_key_bytes(RUN_KEY))


def test_an_invite_of_another_run_is_none() -> None:
    with pytest.raises(ConfigError, match="not an invite"):
        read_invite(invite().text, public_key_bytes(KEY))


def test_invites_that_are_damaged_are_named() -> None:
    text = invite().text
    for place in range(0, len(text), 7):
        bad = text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]
        with pytest.raises(ConfigError, match="not an invite"):
            read_invite(bad)
    for bad in ("", "x", "é" * 40, text[:-4], text * 2, "A" * 10**6, "not an invite at all"):
        with pytest.raises(ConfigError, match="not an invite"):
            read_invite(bad)


def test_an_invite_is_printed(tmp_path: Path) -> None:
    key = create_key_file(tmp_path / "run.key")
    SwarmFolder(tmp_path).write_address(SwarmAddress("r", "http://c:1", "http://here:1"))
    shown = curate("swarm", "invite", tmp_path, "--verifier")
    made = read_invite(shown.output, public_key_bytes(key))
    assert (made.role, made.relays, made.run) == ("verifier", ("http://c:1",), "r")


def test_a_folder_without_a_coordinator_is_named(tmp_path: Path) -> None:
    shown = curate("swarm", "invite", tmp_path)
    assert shown.exit_code == 1
    assert "curate coordinator" in shown.output
