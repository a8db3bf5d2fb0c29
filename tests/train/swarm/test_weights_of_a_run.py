"""What a controller publishes reaches engines through relays, tensor for tensor."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from msgspec.structs import replace
from published_weights import KEY, PUBLIC, RUN, relay

from train.asynchronous.rollout_process import LocalFirstSource
from train.errors import RunError, TransferError
from train.swarm.broadcast.broadcaster import Broadcaster
from train.swarm.broadcast.origin import Origin
from train.swarm.broadcast.relay_source import RelaySource
from train.weights.manifest import WeightManifest
from train.weights.source import SharedMemoryTransport


class Run:
    """A trainer's side: publishes to memory, and names the newest version as a controller does."""

    def __init__(self, folder: Path) -> None:
        self.memory, self.folder = SharedMemoryTransport(file_bytes=50_000), folder
        self.manifest: WeightManifest | None = None
        self.values = torch.arange(50_000, dtype=torch.float32).bfloat16().reshape(5, 100, 100)

    def wait_for_weights(self, after: int, wait_seconds: float) -> WeightManifest | None:
        is_new = self.manifest is not None and self.manifest.version != after
        return self.manifest if is_new else None

    def train(self, version: int) -> None:
        self.values[version % 5, :3] *= -1 - version / 4
        named = {f"layers.{number}": values for number, values in enumerate(self.values)}
        self.manifest = self.memory.publish(named.items(), version, None, 1.0)

    def broadcaster(self, **options: int) -> Broadcaster:
        origin = Origin(f"file://{self.folder / 'public'}", RUN, KEY, shard_bytes=10_000, **options)
        return Broadcaster(
            self, LocalFirstSource("http://127.0.0.1:1", {}), origin, self.folder / "copies", get_ledger_head=head
        )


def head() -> bytes:
    return b"\7" * 32


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    made = Run(tmp_path)
    yield made
    made.memory.close()


def is_what_was_trained(run: Run, files: object) -> bool:
    found = dict(files)  # type: ignore[call-overload]
    return all(torch.equal(found[f"layers.{number}"], values) for number, values in enumerate(run.values))


def test_an_engine_gets_the_tensors_of_the_newest_version(run: Run, tmp_path: Path) -> None:
    broadcaster = run.broadcaster()
    with relay(tmp_path) as url:
        source = RelaySource([url], RUN, PUBLIC, tmp_path / "node", stall_seconds=10)
        for version in range(4):
            run.train(version)
            assert broadcaster.publish_newest(0.0) is not None
            manifest = source.fetch_newest_manifest()
            assert manifest.version == version
            assert is_what_was_trained(run, source.fetch(manifest))
            assert is_what_was_trained(run, source.fetch(run.manifest))
        assert manifest.folder == ""  # a path of the trainer's machine is nobody's business
        assert source.fetch_latest().ledger_head == head()
        assert broadcaster.latest == source.fetch_latest()
        source.close()
    assert not [path for path in (tmp_path / "node").iterdir() if path.name.isdigit()]


def test_versions_travel_as_differences_although_each_has_files_of_its_own_names(run: Run, tmp_path: Path) -> None:
    broadcaster = run.broadcaster()
    for version in range(3):
        run.train(version)
        broadcaster.publish_newest(0.0)
    sizes = [
        sum(path.stat().st_size for path in (tmp_path / "public" / "runs" / RUN / str(version)).glob("*.safetensors*"))
        for version in range(3)
    ]
    assert max(sizes[1:]) < 0.1 * sizes[0]


def test_relays_that_broadcast_other_weights_than_the_controller_has_are_found_out(run: Run, tmp_path: Path) -> None:
    run.train(0)
    run.broadcaster().publish_newest(0.0)
    run.train(0)  # continued from an earlier step, with another outcome
    with relay(tmp_path) as url:
        source = RelaySource([url], RUN, PUBLIC, tmp_path / "node", stall_seconds=10)
        with pytest.raises(TransferError, match="other weights as version 0"):
            source.fetch(run.manifest)


def test_a_run_that_is_continued_may_publish_the_same_again_and_nothing_else(run: Run, tmp_path: Path) -> None:
    first = run.broadcaster()
    for version in range(3):
        run.train(version)
        first.publish_newest(0.0)
    second = run.broadcaster()  # the coordinator was started again, too
    assert second.publish_newest(0.0) is not None
    run.train(1)
    with pytest.raises(RunError, match="version 1 of coder was published with other weights"):
        second.publish_newest(0.0)
    run.train(3)
    assert run.broadcaster().publish_newest(0.0) is not None


def test_a_broadcaster_that_has_to_stop_says_why(run: Run, tmp_path: Path) -> None:
    run.train(0)
    run.broadcaster().publish_newest(0.0)
    run.train(0)
    with pytest.raises(RunError, match="published with other weights"):
        run.broadcaster().publish_until_stopped(threading.Event())


def test_versions_that_nobody_needs_leave_the_store(run: Run, tmp_path: Path) -> None:
    broadcaster = run.broadcaster(full_version_interval=3, keep=2)
    for version in range(8):
        run.train(version)
        broadcaster.publish_newest(0.0)
    assert {path.name for path in (tmp_path / "public" / "runs" / RUN).iterdir()} == {"latest", "6", "7"}


def test_a_damaged_copy_is_not_published(run: Run, tmp_path: Path) -> None:
    run.train(0)
    assert run.manifest is not None
    files = tuple(replace(file, blake3="00" * 32) for file in run.manifest.files)
    run.manifest = replace(run.manifest, files=files)
    with pytest.raises(TransferError, match="were replaced"):
        run.broadcaster().publish_newest(0.0)
    assert not (tmp_path / "public" / "runs").exists()
