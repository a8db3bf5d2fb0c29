"""Relays may do what they like: weights arrive whole, or there is a named error in time."""

import socket
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from msgspec.structs import replace
from published_weights import (
    KEY,
    PUBLIC,
    RUN,
    SHARD_BYTES,
    Behaviour,
    busy,
    continuing,
    corrupting,
    counting,
    download,
    dripping,
    dripping_chunks,
    empty,
    endless,
    forging,
    hanging_up,
    honest,
    ignoring_ranges,
    lacking,
    limiting,
    longer,
    publish,
    redirecting,
    relay,
    senseless,
    serial,
    shorter,
    slow,
    stalling,
    trickling,
    truncating,
)

from train.errors import TransferError
from train.swarm.broadcast.manifest import build_latest_path, build_manifest_path, read_manifest, sign_manifest
from train.swarm.broadcast.mirror import Mirror
from train.swarm.broadcast.relay_client import RelayClient
from train.swarm.broadcast.relay_selector import RelaySelector
from train.swarm.broadcast.relay_source import RelaySource, VersionStore
from train.swarm.broadcast.request import RelayError, get, open_relay
from train.weights.manifest import WeightManifest

BAD = [
    stalling, dripping, dripping_chunks, continuing, longer, shorter, empty, senseless, limiting, forging, lacking,
    corrupting, truncating, endless, trickling, busy, redirecting, ignoring_ranges,
]  # fmt: skip


def same(fetched: Path, folder: Path, version: int) -> bool:
    made = {path.name: path.read_bytes() for path in (folder / "weights" / str(version)).iterdir()}
    return {path.name: path.read_bytes() for path in fetched.iterdir()} == made


@pytest.mark.parametrize(
    "behaviour",
    [
        pytest.param(each, id=each.__name__, marks=() if each in (corrupting, forging) else pytest.mark.thorough)
        for each in BAD
    ],
)
def test_one_honest_relay_among_five_suffices(tmp_path: Path, behaviour: Behaviour) -> None:
    publish(tmp_path, range(2))
    with ExitStack() as stack:
        bad = [stack.enter_context(relay(tmp_path, behaviour)) for _ in range(4)]
        client = download(*bad, stack.enter_context(relay(tmp_path)))
        assert client.fetch_latest().version == 1
        place, _ = VersionStore(tmp_path / "client", client).fetch(1, seconds=60)
        assert same(place, tmp_path, 1)


def test_one_honest_relay_suffices_among_all_kinds_of_bad_ones(tmp_path: Path) -> None:
    publish(tmp_path, range(4))
    with ExitStack() as stack:
        bad = [*BAD, corrupting, truncating, endless, trickling, redirecting]
        urls = [stack.enter_context(relay(tmp_path, behaviour)) for behaviour in [*bad, honest]]
        client = download(*urls)
        assert client.fetch_latest().version == 3
        place, _ = VersionStore(tmp_path / "client", client).fetch(3, seconds=60)
        assert same(place, tmp_path, 3)


def test_bad_relays_alone_end_in_a_named_error_and_nothing_has_a_final_name(tmp_path: Path) -> None:
    publish(tmp_path, range(1))
    with ExitStack() as stack:
        bad = [stalling, dripping, dripping_chunks, continuing, truncating, trickling, lacking, limiting, senseless]
        client = download(*(stack.enter_context(relay(tmp_path, behaviour)) for behaviour in bad))
        with pytest.raises(TransferError, match="of version 0 of coder"):
            VersionStore(tmp_path / "client", client).fetch(0, seconds=1.5)
    assert not list((tmp_path / "client").glob("[0-9]*[0-9]"))


def test_a_greeting_of_tls_that_never_ends_is_cut(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.sendall(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc")  # a long hello, as TLS 1.2 begins it
                while True:
                    connection.sendall(b"\0")
                    time.sleep(0.05)

        greeter = threading.Thread(target=greet, daemon=True)
        greeter.start()
        client = open_relay(f"https://127.0.0.1:{server.getsockname()[1]}", 1)
        with pytest.raises(RelayError, match="timed out"):
            get(client, "runs", 100, seconds=0.5)
        greeter.join(5)
        assert not greeter.is_alive()  # the connection is closed
        client.close()


def test_a_version_that_is_not_kept_any_more_is_not_waited_for(tmp_path: Path) -> None:
    publish(tmp_path, range(8), full_version_interval=2)
    with relay(tmp_path) as one, relay(tmp_path) as other:
        source = RelaySource([one, other], RUN, PUBLIC, tmp_path / "node")
        with pytest.raises(TransferError, match="all relays have dropped version 1 of coder"):
            source.fetch(WeightManifest(1))


def test_a_relay_that_is_slower_than_any_deadline_still_brings_the_weights(tmp_path: Path) -> None:
    publish(tmp_path, range(1))
    with relay(tmp_path, slow) as url:
        relays = RelaySelector([url], min_seconds=0.05)
        place, _ = VersionStore(tmp_path / "client", RelayClient(relays, RUN, PUBLIC)).fetch(0, seconds=60)
        assert same(place, tmp_path, 0)


def test_a_mirror_on_a_line_on_which_a_shard_outlasts_its_patience_gets_the_weights_in_a_later_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("train.swarm.broadcast.mirror._STALL_SECONDS", 0.02)
    publish(tmp_path, range(1))
    n_attempts, is_whole = 0, False
    with relay(tmp_path, slow) as url:
        mirror = Mirror(tmp_path / "mirror", RUN, PUBLIC, download(url))
        while not is_whole:
            n_attempts += 1
            assert n_attempts < 12
            with suppress(TransferError):
                mirror.sync_newest()
                is_whole = True
    assert n_attempts > 1
    files = {
        path.name: path.stat().st_size for path in (tmp_path / "mirror" / "runs" / RUN / "0").glob("*.safetensors")
    }
    assert files == {"model-00000.safetensors": 12 * SHARD_BYTES, "model-00001.safetensors": 14_002}


def test_a_relay_that_fails_is_asked_after_pauses_that_grow(tmp_path: Path) -> None:
    publish(tmp_path, range(1))
    asked: list[str] = []
    with relay(tmp_path, counting(hanging_up, asked)) as url:
        relays = RelaySelector([url])
        client = RelayClient(relays, RUN, PUBLIC)
        with pytest.raises(TransferError, match="14 of 14 shards"):
            VersionStore(tmp_path / "client", client).fetch(0, seconds=2)
        assert 0 < len(asked) < 60
        assert relays.list_available() == [url]
        assert client.fetch_latest().version == 0  # which does not wait for the end of a pause


def test_a_version_may_take_as_long_as_it_needs_while_shards_arrive(tmp_path: Path) -> None:
    publish(tmp_path, range(1))
    with relay(tmp_path, serial(0.25)) as url:  # 14 shards
        source = RelaySource([url], RUN, PUBLIC, tmp_path / "node", stall_seconds=2)
        files = source.fetch(source.fetch_newest_manifest())
        assert same(files.paths[0].parent, tmp_path, 0)


def test_a_version_of_which_no_shard_arrives_is_given_up(tmp_path: Path) -> None:
    publish(tmp_path, range(1))
    with relay(tmp_path, trickling) as url:
        source = RelaySource([url], RUN, PUBLIC, tmp_path / "node", stall_seconds=0.5)
        with pytest.raises(TransferError, match="14 of 14 shards of version 0 of coder did not arrive in time"):
            source.fetch(source.fetch_newest_manifest())


def test_the_manifest_of_the_newest_version_is_the_one_that_was_named_with_it(tmp_path: Path) -> None:
    publish(tmp_path, range(2))
    place = tmp_path / "public" / build_manifest_path(RUN, 1)
    right = place.read_bytes()
    other = replace(read_manifest(right, RUN, 1, PUBLIC), next_full_version=77)
    with relay(tmp_path) as url:
        place.write_bytes(sign_manifest(other, KEY))  # the run has signed it, but never named it
        assert download(url).fetch_manifest(1, seconds=1)[0].next_full_version == 77
        client = download(url)
        assert client.fetch_latest().version == 1
        with pytest.raises(TransferError, match="the manifest of version 1 differs from its digest in `latest`"):
            client.fetch_manifest(1, seconds=1)


def test_what_was_seen_is_remembered_by_the_next_process(tmp_path: Path) -> None:
    publish(tmp_path / "now", range(3))
    publish(tmp_path / "then", range(1))
    for folder in ("now", "then"):
        with relay(tmp_path / folder) as url:
            assert RelaySource([url], RUN, PUBLIC, tmp_path / "node").fetch_latest().version == 2
    (tmp_path / "node" / "latest").write_bytes(b"not signed by anybody")
    with relay(tmp_path / "then") as url:
        assert RelaySource([url], RUN, PUBLIC, tmp_path / "node").fetch_latest().version == 0


def test_a_relay_that_holds_back_new_versions_counts_as_failing(tmp_path: Path) -> None:
    publish(tmp_path / "now", range(4))
    publish(tmp_path / "then", range(2))
    with relay(tmp_path / "now") as now, relay(tmp_path / "then") as then:
        relays = RelaySelector([now, then])
        client = RelayClient(relays, RUN, PUBLIC)
        for _ in range(10):
            assert client.fetch_latest().version == 3
        drawn = [relays.choose(10**6, relays.urls) for _ in range(200)]
        assert drawn.count(now) > 180
    assert (tmp_path / "then" / "public" / build_latest_path(RUN)).exists()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_relay_that_lies_is_left_alone_twice_as_long_each_time() -> None:
    clock = Clock()
    relays = RelaySelector(["a", "b"], clock=clock)
    for seconds in (600, 1200, 2400):
        relays.quarantine("a")
        relays.quarantine("a")  # another thread had asked it at the same time
        clock.now += seconds - 1
        assert relays.list_available() == ["b"]
        clock.now += 1
        assert set(relays.list_available()) == {"a", "b"}
    for _ in range(2000):  # no number of lies overflows anything
        clock.now += 10**6
        relays.quarantine("a")
    clock.now += 86_400
    assert set(relays.list_available()) == {"a", "b"}


def test_shards_go_to_relays_by_their_bandwidth() -> None:
    clock = Clock()
    relays = RelaySelector(["slow", "fast"], clock=clock, max_concurrent=100)
    for url, seconds in (("slow", 4.0), ("fast", 1.0)):
        transfer = relays.start_transfer(url, 2**22)
        transfer.record_progress(2**22)
        clock.now += seconds
        relays.record_success(transfer)
    running = [relays.start_transfer(relays.choose(2**20, relays.urls) or "", 2**20) for _ in range(50)]
    n_fast = sum(transfer.url == "fast" for transfer in running)
    assert 36 <= n_fast <= 44  # four fifths
