"""Weights arrive whole or not at all, whatever relays do."""

from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace
from published_weights import (
    KEY,
    PUBLIC,
    RUN,
    SHARD_BYTES,
    corrupting,
    counting,
    download,
    honest,
    publish,
    relay,
)

from train.errors import TransferError
from train.swarm.broadcast.manifest import (
    LatestVersion,
    WeightShard,
    build_latest_path,
    build_manifest_path,
    read_manifest,
    sign_latest,
    sign_manifest,
)
from train.swarm.broadcast.mirror import Mirror
from train.swarm.broadcast.relay_source import VersionStore
from train.swarm.signatures import BadSignature


def same(fetched: Path, folder: Path, version: int) -> bool:
    made = folder / "weights" / str(version)
    names = sorted(path.name for path in made.iterdir())
    return sorted(path.name for path in fetched.iterdir()) == names and all(
        (fetched / name).read_bytes() == (made / name).read_bytes() for name in names
    )


def test_a_worker_that_joins_takes_the_anchor_and_the_differences_after_it(tmp_path: Path) -> None:
    publish(tmp_path, range(4))
    with relay(tmp_path) as url:
        client = download(url)
        assert client.fetch_latest().version == 3
        place, manifest = VersionStore(tmp_path / "client", client).fetch(3, seconds=20)
    assert manifest.base == 2
    assert same(place, tmp_path, 3)


def test_differences_are_a_small_part_of_the_files(tmp_path: Path) -> None:
    publish(tmp_path, range(3))
    with relay(tmp_path) as url:
        manifests = [download(url).fetch_manifest(version, seconds=5)[0] for version in range(3)]
    whole = sum(file.size for file in manifests[0].weights.files)
    assert [manifest.base for manifest in manifests] == [None, 0, 1]
    assert manifests[0].n_bytes == whole
    assert max(manifest.n_bytes for manifest in manifests[1:]) < 0.06 * whole


def test_a_version_that_differs_much_and_every_so_many_th_are_whole(tmp_path: Path) -> None:
    publish(tmp_path / "much", range(2), changed_share=0.5)
    publish(tmp_path / "often", range(5), full_version_interval=2)
    with relay(tmp_path / "much") as much, relay(tmp_path / "often") as often:
        assert download(much).fetch_manifest(1, seconds=5)[0].base is None
        assert [download(often).fetch_manifest(version, seconds=5)[0].base for version in range(5)] == [
            None,
            0,
            None,
            2,
            None,
        ]


def test_without_an_honest_relay_there_is_a_named_error_and_no_version(tmp_path: Path) -> None:
    publish(tmp_path, range(1))
    with relay(tmp_path, corrupting) as url:
        versions = VersionStore(tmp_path / "client", download(url))
        with pytest.raises(TransferError, match="it sent a damaged shard"):
            versions.fetch(0, seconds=2)
    assert not (tmp_path / "client" / "000000").exists()


def test_a_relay_that_stands_still_is_behind_and_never_takes_a_client_back(tmp_path: Path) -> None:
    publish(tmp_path / "now", range(4))
    publish(tmp_path / "then", range(2))
    with relay(tmp_path / "now") as now, relay(tmp_path / "then") as then:
        both = download(now, then)
        assert both.fetch_latest().version == 3
        (tmp_path / "now" / "public" / build_latest_path(RUN)).unlink()
        assert both.fetch_latest().version == 3
        assert download(then).fetch_latest().version == 1


def test_only_what_the_run_has_signed_is_believed(tmp_path: Path) -> None:
    publish(tmp_path, range(2))
    place = tmp_path / "public" / build_latest_path(RUN)
    stranger = Ed25519PrivateKey.generate()
    place.write_bytes(sign_latest(LatestVersion(RUN, 9, bytes(32), 2e9), stranger))
    with relay(tmp_path) as url, pytest.raises(TransferError, match="no valid signature"):
        download(url).fetch_latest()


def test_a_manifest_is_good_for_its_run_and_version_alone(tmp_path: Path) -> None:
    publish(tmp_path, range(2))
    signed = (tmp_path / "public" / build_manifest_path(RUN, 1)).read_bytes()
    assert read_manifest(signed, RUN, 1, PUBLIC).version == 1
    for run, version, data in (("other", 1, signed), (RUN, 0, signed), (RUN, 1, signed[:-1]), (RUN, 1, b"")):
        with pytest.raises(BadSignature):
            read_manifest(data, run, version, PUBLIC)
    as_latest = sign_latest(LatestVersion(RUN, 1, bytes(32), 0.0), KEY)
    with pytest.raises(BadSignature):
        read_manifest(as_latest, RUN, 1, PUBLIC)  # signed by the run, but for another purpose


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("the size of its shards", lambda shards: [replace(shards[0], offset=1), *shards[1:]]),
        ("the size of its shards", lambda shards: [replace(shards[0], length=0), *shards]),
        ("the size of its shards", lambda shards: [replace(shards[0], length=2**26 + 1), *shards[1:]]),
        ("the size of its shards", lambda shards: [shards[0], *shards]),
        ("the size of its shards", lambda shards: shards[::-1]),
        ("the digests of its shards", lambda shards: [replace(shards[0], digest=b"short"), *shards[1:]]),
        ("the size of its files", lambda shards: shards[:-1]),
        ("the size of its files", lambda shards: [replace(shard, file=f"../{shard.file}") for shard in shards]),
        ("the size of its files", lambda shards: [*shards, replace(shards[0], file="other.safetensors")]),
        ("the size of its files", lambda shards: []),
    ],
)
def test_shards_that_are_not_the_files_are_refused_even_if_the_run_has_signed_them(
    tmp_path: Path, words: str, change: Callable[[list[WeightShard]], list[WeightShard]]
) -> None:
    publish(tmp_path, range(1))
    manifest = read_manifest((tmp_path / "public" / build_manifest_path(RUN, 0)).read_bytes(), RUN, 0, PUBLIC)
    changed = replace(manifest, shards=tuple(change(list(manifest.shards))))
    with pytest.raises(BadSignature, match=words):
        read_manifest(sign_manifest(changed, KEY), RUN, 0, PUBLIC)


def test_a_difference_is_one_of_each_file(tmp_path: Path) -> None:
    publish(tmp_path, range(2))
    manifest = read_manifest((tmp_path / "public" / build_manifest_path(RUN, 1)).read_bytes(), RUN, 1, PUBLIC)
    names = [f"{file.name}.delta" for file in manifest.weights.files]
    assert [shard.file for shard in manifest.shards] == names
    for files in (names[:1], [*names, "other.safetensors.delta"], [name.removesuffix(".delta") for name in names]):
        changed = replace(manifest, shards=tuple(replace(manifest.shards[0], file=name) for name in files))
        with pytest.raises(BadSignature, match="the files of its shards"):
            read_manifest(sign_manifest(changed, KEY), RUN, 1, PUBLIC)


def test_a_damaged_base_on_the_disk_costs_the_anchor_and_nothing_else(tmp_path: Path) -> None:
    publish(tmp_path, range(3))
    with relay(tmp_path) as url:
        versions = VersionStore(tmp_path / "client", download(url))
        place, _ = versions.fetch(1, seconds=20)
        with (place / "model-00000.safetensors").open("r+b") as file:
            file.write(b"\xff" * 64)
        newest, _ = versions.fetch(2, seconds=20)
    assert same(newest, tmp_path, 2)


def test_of_a_damaged_version_on_the_disk_only_the_damaged_shard_is_fetched_again(tmp_path: Path) -> None:
    publish(tmp_path, range(1))
    asked = list[str]()
    with relay(tmp_path, counting(honest, asked)) as url:
        place, _ = VersionStore(tmp_path / "client", download(url)).fetch(0, seconds=20)
        with (place / "model-00000.safetensors").open("r+b") as file:
            file.seek(7 * SHARD_BYTES)
            file.write(b"\xff" * 64)
        asked.clear()
        again, _ = VersionStore(tmp_path / "client", download(url)).fetch(0, seconds=20)
    assert asked == [f"/runs/{RUN}/0/model-00000.safetensors bytes={7 * SHARD_BYTES}-{8 * SHARD_BYTES - 1}"]
    assert same(again, tmp_path, 0)


def test_relays_form_a_chain_and_drop_what_nobody_needs(tmp_path: Path) -> None:
    publish(tmp_path, range(8), full_version_interval=3)
    with relay(tmp_path) as origin:
        first = Mirror(tmp_path / "first" / "public", RUN, PUBLIC, download(origin), keep=2)
        first.sync_newest()
        with relay(tmp_path / "first") as url:
            second = Mirror(tmp_path / "second" / "public", RUN, PUBLIC, download(url), keep=2)
            second.sync_newest()
            with relay(tmp_path / "second") as last:
                place, _ = VersionStore(tmp_path / "client", download(last)).fetch(7, seconds=20)
    assert same(place, tmp_path, 7)
    kept = {path.name for path in (tmp_path / "second" / "public" / "runs" / RUN).iterdir()}
    assert kept == {"latest", "6", "7"}  # 6 is whole, and 7 is the difference from it
