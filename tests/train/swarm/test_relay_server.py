"""A relay sends three kinds of files, in bounded amounts, and never anything else."""

import random
import socket
import threading
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from published_weights import (
    PUBLIC,
    RUN,
    SHARD_BYTES,
    download,
    honest,
    ignoring_ranges,
    is_shard,
    publish,
    relay,
    serving,
)  # fmt: skip
from waiting import becomes

from train.swarm.broadcast import request
from train.swarm.broadcast.manifest import build_file_path, build_latest_path
from train.swarm.broadcast.mirror import Mirror
from train.swarm.broadcast.relay import RelayApp, RelayRateLimiter
from train.swarm.broadcast.relay_source import VersionStore
from train.swarm.broadcast.request import NotAvailable, RelayBusy, RelayError, open_relay

NAME = "model-00000.safetensors"
PATH = f"/runs/{RUN}/0/{NAME}"
SECRET = b"the key of the run"
UPWARDS = [b"../", b"%2e%2e/", b"..%2f", b"..\\", b"%252e%252e/"]
PLENTY = RelayRateLimiter(1e6, 1e12)


def answer(port: int, request: bytes, seconds: float = 10) -> bytes:
    """Return all that a server says to some bytes until it hangs up, or is silent for so long."""
    said = b""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection, suppress(OSError):
        connection.sendall(request)
        while piece := connection.recv(2**16):
            said += piece
    return said


def get(path: bytes, method: bytes = b"GET") -> bytes:
    return method + b" " + path + b" HTTP/1.1\r\nhost: relay\r\nconnection: close\r\n\r\n"


def test_no_path_leads_out_of_the_three_kinds_of_files(tmp_path: Path) -> None:
    publish(tmp_path, range(1))
    run = tmp_path / "public" / "runs" / RUN
    for place in (tmp_path / "secret", tmp_path / "public" / "secret", run / "secret", run / "0" / ".new-secret"):
        place.write_bytes(SECRET)
    for name in (".model-00000.safetensors", "model.safetensors.part", "0.delta"):
        (run / "0" / name).write_bytes(SECRET)
    base = f"/runs/{RUN}".encode()
    attempts = [
        b"/secret",
        base + b"/secret",
        base + b"/0/.new-secret",
        base + b"/0/.model-00000.safetensors",
        base + b"/0/model.safetensors.part",
        base + b"/0/0.delta",
        base + b"/0/model-00000.safetensors%00",
        base + b"/0",
        base + b"/0/",
        base,
        b"/",
        b"//secret",
        b"secret",
        b"*",
        b"http://relay/secret",
        b"file:///" + str(tmp_path / "secret").encode(),
        str(tmp_path / "secret").encode(),
        base + b"/latest/../secret",
        base + b"/latest%0a",
        base + b"/latest\xc2\xa0",
        base + b"/\xd9\xa0/model-00000.safetensors",  # a digit, but not of ASCII
        base + b"/0/model-00000.safetensors/" + b"a" * 5000,
        base + b"/0/" + b"a" * 101 + b".safetensors",
        *(b"/runs/" + up * n + b"secret" for up in UPWARDS for n in (1, 2, 3)),
        *(base + b"/" + up + b"/manifest" for up in (b"..", b"%2e%2e", b"0/..", b".")),
    ]
    with serving(RelayApp(tmp_path / "public", PLENTY)) as port:
        for path in attempts:
            said = answer(port, get(path))
            assert SECRET not in said, path
            assert b" 200 " not in said.split(b"\r\n")[0], path
        for method in (b"POST", b"PUT", b"DELETE", b"PATCH", b"OPTIONS"):
            assert b" 405 " in answer(port, get(base + b"/latest", method)), method
        assert b" 200 " in answer(port, get(base + b"/latest"))
        assert answer(port, get(base + b"/0/model-00000.safetensors", b"HEAD")).endswith(b"\r\n\r\n")
        assert b"retry-after: 1" in answer(port, get(base + b"/1/model-00000.safetensors"))


def test_any_bytes_are_answered_or_hung_up_on(tmp_path: Path) -> None:
    publish(tmp_path, range(1))
    (tmp_path / "secret").write_bytes(SECRET)
    rng = random.Random(0)
    whole = get(PATH.encode())
    with serving(RelayApp(tmp_path / "public", PLENTY)) as port:
        for _ in range(100):
            request = bytearray(whole)
            for _ in range(rng.randrange(1, 6)):
                request[rng.randrange(len(request))] = rng.randrange(256)
            assert SECRET not in answer(port, bytes(request), seconds=0.1)
        assert b" 200 " in answer(port, whole)


def test_parts_of_a_file_can_be_asked_for(tmp_path: Path) -> None:
    publish(tmp_path, range(1))
    file = (tmp_path / "public" / PATH[1:]).read_bytes()
    with serving(RelayApp(tmp_path / "public", PLENTY)) as port:
        request = get(PATH.encode()).replace(b"\r\n\r\n", b"\r\nrange: bytes=100-199\r\n\r\n")
        said = answer(port, request)
        assert b" 416 " in answer(port, request.replace(b"100-199", b"120000-120009"))
        assert answer(port, request.replace(b"100-199", b"119990-120009")).endswith(b"\r\n\r\n" + file[-10:])
        for unknown in (b"5-", b"-5", b"0-1,3-4", b"x", b"9" * 5000 + b"-1"):
            assert answer(port, request.replace(b"100-199", unknown)).endswith(b"\r\n\r\n" + file)
    assert b" 206 " in said
    assert f"content-range: bytes 100-199/{len(file)}\r\n".encode() in said
    assert said.endswith(b"\r\n\r\n" + file[100:200])


def test_what_has_arrived_of_a_file_is_passed_on_and_nothing_else(tmp_path: Path) -> None:
    publish(tmp_path, range(1))
    arrived, asked = threading.Event(), threading.Event()

    def until_asked(handler: BaseHTTPRequestHandler, content: bytes | None) -> None:
        if is_shard(handler) and handler.headers["range"] != f"bytes=0-{SHARD_BYTES - 1}":
            assert asked.wait(30)
        honest(handler, content)

    def noting(line: str) -> None:
        arrived.set()

    folder = tmp_path / "mirror"
    with relay(tmp_path, until_asked) as url:
        mirror = Mirror(folder, RUN, PUBLIC, download(url), note=noting)
        follower = threading.Thread(target=mirror.sync_newest)
        with serving(RelayApp(folder, PLENTY, mirror.find_partial_file)) as port:
            follower.start()
            first = ranged(0, SHARD_BYTES)
            assert becomes(lambda: b" 206 " in answer(port, first))
            said = answer(port, first)
            assert said.endswith((tmp_path / "public" / PATH[1:]).read_bytes()[:SHARD_BYTES])
            assert not arrived.is_set()
            for other in (get(PATH.encode()), ranged(0, SHARD_BYTES + 1), ranged(5 * SHARD_BYTES, SHARD_BYTES)):
                assert b" 404 " in answer(port, other)
            asked.set()
            follower.join(30)
            assert arrived.is_set()
            assert answer(port, get(PATH.encode())).endswith((tmp_path / "public" / PATH[1:]).read_bytes())


def ranged(start: int, length: int) -> bytes:
    return get(PATH.encode()).replace(b"\r\n\r\n", f"\r\nrange: bytes={start}-{start + length - 1}\r\n\r\n".encode())


def test_an_address_that_asks_for_too_much_is_told_to_wait_and_a_client_does(tmp_path: Path) -> None:
    publish(tmp_path, range(1))
    with serving(RelayApp(tmp_path / "public", RelayRateLimiter(1000, 4 * SHARD_BYTES))) as port:
        place, _ = VersionStore(tmp_path / "client", download(f"http://127.0.0.1:{port}")).fetch(0, seconds=60)
        assert (place / "model-00000.safetensors").stat().st_size == 12 * SHARD_BYTES
        said = [answer(port, ranged(0, SHARD_BYTES)) for _ in range(12)]
    refused = [each for each in said if b" 429 " in each]
    assert refused
    assert all(b"retry-after: " in each for each in refused)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@given(st.lists(st.tuples(st.floats(0, 2), st.integers(0, 5000)), max_size=60))
def test_no_address_gets_more_than_its_rate_and_one_burst(asked: list[tuple[float, int]]) -> None:
    clock, granted, times = Clock(), 0, 0
    rates = RelayRateLimiter(5, 1000, burst_seconds=2, clock=clock)
    for pause, n_bytes in asked:
        clock.now += pause
        wait = rates.try_charge("one", n_bytes)
        assert 0 <= wait < 10
        if wait == 0:
            granted += n_bytes
            times += 1
        # An answer that is larger than the bucket puts it in debt, once.
        assert granted <= 2000 + 1000 * clock.now + 5000
        assert times <= 10 + 5 * clock.now + 1
    assert rates.try_charge("another", 1) == 0


def test_addresses_that_are_forgotten_do_not_fill_the_memory() -> None:
    rates = RelayRateLimiter(5, 1000)
    for number in range(30_000):
        rates.try_charge(str(number), 1)
    assert len(rates._buckets) <= 10_000


@pytest.mark.parametrize("header", ["5", "0", "-1", "soon", "", "1e9", "99999999999999999999"])
def test_a_wait_that_makes_no_sense_is_no_reason_to_wait_for_ever(tmp_path: Path, header: str) -> None:
    def busy_for(handler: BaseHTTPRequestHandler, content: bytes | None) -> None:
        handler.send_response(503)
        handler.send_header("retry-after", header)
        handler.send_header("content-length", "0")
        handler.end_headers()

    with relay(tmp_path, busy_for) as url, closing(open_relay(url, 1)) as client:
        with pytest.raises(RelayBusy) as refusal:
            request.get(client, build_latest_path(RUN), 1000, seconds=10)
        assert 0 <= refusal.value.seconds <= 10


def test_requests_one_after_another_need_one_connection_also_after_a_refusal(tmp_path: Path) -> None:
    publish(tmp_path, range(1))
    connections = set()

    def noting(handler: BaseHTTPRequestHandler, content: bytes | None) -> None:
        connections.add(handler.client_address)
        honest(handler, content)

    with relay(tmp_path, noting) as url, closing(open_relay(url, 1)) as client:
        for _ in range(3):
            assert request.get(client, build_file_path(RUN, 0, NAME), SHARD_BYTES, offset=0, seconds=10)
            with pytest.raises(NotAvailable):
                request.get(client, build_file_path(RUN, 1, NAME), SHARD_BYTES, offset=0, seconds=10)
    assert len(connections) == 1


def test_a_whole_file_is_no_answer_to_a_range(tmp_path: Path) -> None:
    publish(tmp_path, range(1))
    with (
        relay(tmp_path, ignoring_ranges) as url,
        closing(open_relay(url, 1)) as client,
        pytest.raises(RelayError, match="returns HTTP 200"),
    ):
        request.get(client, build_file_path(RUN, 0, NAME), SHARD_BYTES, offset=0, seconds=10)
