"""Clients and relays that are killed at any point go on with what they have, and never keep anything that is wrong."""

import errno
import os
import random
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import forked
import pytest
from published_weights import KEY, PUBLIC, RUN, SHARD_BYTES, counting, download, honest, is_shard, publish, relay

from train.errors import TransferError
from train.swarm.broadcast.mirror import Mirror
from train.swarm.broadcast.origin import Origin
from train.swarm.broadcast.relay_client import RelayClient
from train.swarm.broadcast.relay_selector import RelaySelector
from train.swarm.broadcast.relay_source import VersionStore
from train.swarm.broadcast.shard_download import ShardFiles, TransferDeadline

ROOT = Path(__file__).parents[3]
SECONDS = 60
_CLIENT = """
import sys
from pathlib import Path
from published_weights import download
from train.swarm.broadcast.relay_source import VersionStore
VersionStore(Path(sys.argv[1]), download(*sys.argv[2:])).fetch(2, seconds=60)
"""


class Victim:
    """A process that is killed when it has been sent so many shards. As `Behaviour`, an honest but slow relay."""

    def __init__(self) -> None:
        self.left = -1
        self.process: forked.Popen | None = None
        self._lock = threading.Lock()

    def __call__(self, handler: BaseHTTPRequestHandler, content: bytes | None) -> None:
        if content is not None and is_shard(handler):
            time.sleep(0.01)
            with self._lock:
                self.left -= 1
                if self.left == 0 and self.process is not None:
                    self.process.kill()
        honest(handler, content)

    @contextmanager
    def started(self, command: list[str], after_shards: int) -> Iterator[forked.Popen]:
        """Start a process that is killed after so many shards; -1: never."""
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests' / 'train'}"}
        with self._lock:
            self.left = after_shards
            self.process = forked.Popen(command, env=environment, cwd=ROOT)
        try:
            yield self.process
        finally:
            self.process.kill()
            self.process.wait()


def test_a_client_that_is_killed_anywhere_has_nothing_wrong_and_goes_on(tmp_path: Path) -> None:
    publish(tmp_path, range(3))
    rng, victim = random.Random(15), Victim()
    with relay(tmp_path, victim) as url:
        for _ in range(4):
            command = [sys.executable, "-c", _CLIENT, str(tmp_path / "client"), url]
            with victim.started(command, rng.randrange(1, 8)) as process:
                process.wait(SECONDS)
            for whole in (tmp_path / "client").glob("[0-9]*[0-9]"):
                assert_same(whole, tmp_path / "weights" / str(int(whole.name)))
        place, _ = VersionStore(tmp_path / "client", download(url)).fetch(2, seconds=SECONDS)
    assert_same(place, tmp_path / "weights" / "2")


def test_a_relay_that_is_killed_anywhere_serves_nothing_wrong_and_goes_on(tmp_path: Path) -> None:
    publish(tmp_path, range(3))
    rng, victim = random.Random(16), Victim()
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    folder, fetched = tmp_path / "relay", []
    client = VersionStore(tmp_path / "client", download(f"http://{address}"))
    thread = threading.Thread(target=lambda: fetched.append(client.fetch(2, seconds=SECONDS)[0]))
    thread.start()  # it fetches from the relay all the time
    with relay(tmp_path, victim) as url:
        options = ["--from", url, "--run", RUN, "--public-key", PUBLIC.hex(), "--folder", str(folder)]
        command = [sys.executable, "-m", "cli", "relay", *options, "--listen", address]
        for _ in range(3):
            with victim.started(command, rng.randrange(1, 8)) as process:
                process.wait(SECONDS)
            for path in folder.rglob("*"):
                if path.is_file() and not path.name.startswith(".") and path.name != "latest":
                    assert path.read_bytes() == (tmp_path / "public" / path.relative_to(folder)).read_bytes()
        with victim.started(command, -1) as process:
            thread.join(SECONDS)
            assert process.poll() is None
            process.terminate()
            assert process.wait(SECONDS) == 0
    assert_same(fetched[0], tmp_path / "weights" / "2")


def test_a_relay_that_starts_again_removes_what_is_damaged_and_fetches_only_that(tmp_path: Path) -> None:
    publish(tmp_path, range(2))
    asked = list[str]()
    folder = tmp_path / "relay"
    with relay(tmp_path, counting(honest, asked)) as url:
        Mirror(folder, RUN, PUBLIC, download(url)).sync_newest()
        place = folder / "runs" / RUN
        name = "model-00000.safetensors"
        with (place / "0" / name).open("r+b") as file:
            file.seek(3 * SHARD_BYTES)
            file.write(b"half of a shard, after the power was gone")
        (place / "0" / ".new-abc").write_bytes(b"what was being written")
        (place / "7").mkdir()
        (place / "7" / "manifest").write_bytes(b"not signed")
        asked.clear()
        again = Mirror(folder, RUN, PUBLIC, download(url))
        assert not (place / "0" / name).exists()
        path = f"runs/{RUN}/0/{name}"
        assert again.find_partial_file(path, 3 * SHARD_BYTES - 1, 3 * SHARD_BYTES + 1) is None
        assert again.find_partial_file(path, 2 * SHARD_BYTES, 3 * SHARD_BYTES) is not None
        again.sync_newest()
    assert asked == [f"/{path} bytes={3 * SHARD_BYTES}-{4 * SHARD_BYTES - 1}"]
    assert {str(path.relative_to(folder)) for path in folder.rglob("*")} == {
        str(path.relative_to(tmp_path / "public")) for path in (tmp_path / "public").rglob("*")
    }


def test_a_relay_without_room_says_so_and_goes_on_when_there_is_some(tmp_path: Path) -> None:
    publish(tmp_path, range(1))
    with relay(tmp_path) as url:
        mirror = Mirror(tmp_path / "relay", RUN, PUBLIC, download(url))
        (tmp_path / "relay").mkdir()
        (tmp_path / "relay" / "runs").write_text("in the way")
        with pytest.raises(TransferError, match="Free disk space"):
            mirror.sync_newest()
        (tmp_path / "relay" / "runs").unlink()
        mirror.sync_newest()
    assert (tmp_path / "relay" / "runs" / RUN / "0" / "model-00000.safetensors").exists()


def assert_same(found: Path, made: Path) -> None:
    assert {path.name: path.read_bytes() for path in found.iterdir()} == {
        path.name: path.read_bytes() for path in made.iterdir()
    }


def test_what_a_killed_origin_was_writing_is_removed(tmp_path: Path) -> None:
    publish(tmp_path, range(1))
    (place := tmp_path / "public" / "runs" / RUN / "1").mkdir()
    (place / "model-00000.safetensors#1").write_bytes(b"half")
    Origin(f"file://{tmp_path / 'public'}", RUN, KEY)
    assert not [*place.iterdir()]


def test_a_full_disk_does_not_change_what_relays_are_worth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(files: ShardFiles, number: int, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "no space")

    publish(tmp_path, range(1))
    with relay(tmp_path, honest) as url:
        relays = RelaySelector([url])
        client = RelayClient(relays, RUN, PUBLIC)
        manifest, _ = client.fetch_manifest(0, seconds=SECONDS)
        (tmp_path / "here").mkdir()
        with monkeypatch.context() as patch:
            patch.setattr(ShardFiles, "write", write)
            for _ in range(3):
                files = ShardFiles(tmp_path / "here", manifest.shards)
                with pytest.raises(OSError, match="no space"):
                    client.fetch_shards(manifest, files, TransferDeadline.from_now(SECONDS))
        assert relays._relays[url].n_running == relays._relays[url].pending_bytes == 0
        client.close()
