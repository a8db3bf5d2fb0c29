"""Weights from relays that nobody trusts, as engines take them.

The versions are on the worker's disk, whole or put together from a difference and the one before. One stands under its
final name only when each of its files has the digest that the run has signed. A worker that was killed goes on with
the shards that it has.
"""

import logging
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path

from blake3 import blake3

from train.errors import TransferError
from train.sampling.engine_spec import EngineSpec
from train.swarm.broadcast.delta import BadDelta, apply_delta
from train.swarm.broadcast.manifest import (
    DELTA,
    BroadcastManifest,
    LatestVersion,
    has_same_weights,
    sanitize_run_name,
)
from train.swarm.broadcast.relay_client import RelayClient
from train.swarm.broadcast.relay_selector import RelaySelector
from train.swarm.broadcast.shard_download import ShardFiles, TransferDeadline
from train.weights.manifest import WeightManifest
from train.weights.source import TensorFiles
from train.weights.version_folder import VersionFolder, default_folder

log = logging.getLogger(__name__)

_MANIFEST_SECONDS = 30.0
STALL_SECONDS = 600.0
_RETAINED_VERSIONS = 2


class VersionStore:
    """The versions in a folder, which several processes of one user may share.

    keep  so many versions, those that were fetched last, stay
    """

    def __init__(self, folder: Path, download: RelayClient, *, keep: int = _RETAINED_VERSIONS) -> None:
        self._folder, self._download = VersionFolder(folder, keep), download
        self._folder.create()

    def fetch(
        self, version: int, *, seconds: float = inf, stall_seconds: float = inf
    ) -> tuple[Path, BroadcastManifest]:
        """Return the folder of a version, and its manifest. The folder stays until `keep` others are fetched.

        seconds        time for all of it
        stall_seconds  time in which at least one shard has to come, unless another process of this machine fetches

        Raises TransferError if the relays do not send it in time, or if the disk is full.
        """
        deadline = TransferDeadline.after(seconds, stall_seconds)
        try:
            with self._folder.exclusive_lock(deadline.until):
                deadline.record_progress()
                manifest = self._fetched(version, deadline)
                self._folder.mark_in_use(_name(version))
                self._folder.remove_unused()
        except BadDelta as error:
            raise TransferError(f"version {version} cannot be put together: {error}") from error
        except OSError as error:
            raise TransferError(
                f"cannot keep version {version} in {self._folder.path}: {error}. Make room there."
            ) from error
        return self._path(version), manifest

    def close(self) -> None:
        """Remove what no process uses any more. The folders of this object cannot be read after that."""
        self._folder.close()

    def _fetched(self, version: int, deadline: TransferDeadline) -> BroadcastManifest:
        try:
            return self._build(version, deadline, may_differ=True)
        except BadDelta as error:
            log.warning(
                "the difference of version %d does not fit (%s); the last whole version is fetched", version, error
            )
            return self._build(version, deadline, may_differ=False)

    def _build(self, version: int, deadline: TransferDeadline, *, may_differ: bool) -> BroadcastManifest:
        """Bring a version and all that it needs to the disk.

        may_differ  whether versions that are there already are believed to be right, so that a difference is enough
        """
        chain: list[BroadcastManifest] = []
        wanted: int | None = version
        while wanted is not None and not (may_differ and chain and self._path(wanted).is_dir()):
            manifest, _ = self._download.fetch_manifest(wanted, seconds=deadline.remaining())
            chain.append(manifest)
            if wanted == version and may_differ and _is_right(manifest, self._path(version)):
                return manifest
            wanted = manifest.base
        made: int | None = None
        for manifest in reversed(chain):
            is_new = self._complete(manifest, deadline)
            if made is not None:
                self._folder.remove_if_unused(_name(made))  # it was a step on the way
            made = manifest.version if is_new else None
        return chain[0]

    def _complete(self, manifest: BroadcastManifest, deadline: TransferDeadline) -> bool:
        """Bring a version to the disk whose base is there. Return whether it was not there before."""
        place = self._path(manifest.version)
        if _is_right(manifest, place):
            return False
        part = self._folder.part_of(place.name)
        part.mkdir(exist_ok=True)
        for damaged in place.glob("*"):  # shards of it may be right
            damaged.replace(part / damaged.name)
        shutil.rmtree(place, ignore_errors=True)
        self._download.fetch_shards(manifest, ShardFiles(part, manifest.shards), deadline)
        if manifest.base is not None:
            _apply(manifest, self._path(manifest.base), part)
        for file in manifest.weights.files:
            if _digest(part / file.name) != file.blake3:
                shutil.rmtree(part)
                raise BadDelta(f"{file.name} of version {manifest.version} is not what the run has signed")
        for delta in part.glob(f"*{DELTA}"):
            delta.unlink()
        part.rename(place)
        return True

    def _path(self, version: int) -> Path:
        return self._folder.path / _name(version)


def _name(version: int) -> str:
    return f"{version:06d}"


def _apply(manifest: BroadcastManifest, base: Path, part: Path) -> None:
    """Put the files together from those of the base and the differences. Raises BadDelta if they do not fit."""
    for file in manifest.weights.files:
        if not (base / file.name).is_file():
            raise BadDelta(f"version {manifest.base} has no {file.name}")
        delta = (part / f"{file.name}{DELTA}").read_bytes()
        (part / file.name).write_bytes(apply_delta((base / file.name).read_bytes(), delta))


def _is_right(manifest: BroadcastManifest, place: Path) -> bool:
    files = manifest.weights.files
    return all((place / file.name).is_file() and _digest(place / file.name) == file.blake3 for file in files)


def _digest(path: Path) -> str:
    return blake3(max_threads=blake3.AUTO).update_mmap(path).hexdigest()


class RelaySource:
    """A source (train/weights/source.py) of what a run broadcasts.

    relays         URLs
    run            name of the run, as it is in paths
    public         the run's public key
    folder         where the versions are kept; workers of this machine that name the same folder share it
    stall_seconds  how long a relay may take to have a version, and each shard of it to come
    keep           so many versions, those that were fetched last, stay
    """

    def __init__(
        self, relays: Sequence[str], run: str, public: bytes, folder: Path, *,
        stall_seconds: float = STALL_SECONDS, keep: int = 2,
    ) -> None:  # fmt: skip
        self._download = RelayClient(RelaySelector(relays), run, public)
        self._versions = VersionStore(folder, self._download, keep=keep)
        self._stall_seconds = stall_seconds
        self._memory = folder / "latest"
        self._download.load_last_seen(self._memory)

    def latest(self) -> LatestVersion:
        """Return the newest version that the relays name, with the head of the run's ledger. Raises TransferError."""
        latest, sealed = self._download.fetch_signed_latest()
        with suppress(OSError):  # it is for the next process, which may do without
            new = self._memory.with_name(f"{self._memory.name}.{os.getpid()}")
            new.write_bytes(sealed)
            new.replace(self._memory)
        return latest

    def newest_manifest(self) -> WeightManifest:
        """Return the manifest of the newest version. Raises TransferError if no relay has it."""
        return self._manifest(self.latest().version, _MANIFEST_SECONDS).weights

    def fetch(self, manifest: WeightManifest) -> TensorFiles:
        """Bring a version to this machine.

        Raises TransferError if the relays stop sending it, or broadcast other weights under its number.
        """
        with suppress(TransferError):  # they may name none yet
            self._download.fetch_latest()  # whether a newer version has replaced this one
        broadcast = self._manifest(manifest.version, self._stall_seconds)
        if not has_same_weights(broadcast.weights, manifest):
            raise TransferError(
                f"the relays broadcast other weights as version {manifest.version} than the run has: the run was "
                "continued from an earlier step, or it is another one of the same name"
            )
        place, _ = self._versions.fetch(manifest.version, stall_seconds=self._stall_seconds)
        return TensorFiles(tuple(place / file.name for file in broadcast.weights.files))

    def close(self) -> None:
        """Close the connections, and remove what no process of this machine reads any more."""
        self._download.close()
        self._versions.close()

    def _manifest(self, version: int, seconds: float) -> BroadcastManifest:
        return self._download.fetch_manifest(version, seconds=seconds)[0]


@dataclass(frozen=True, slots=True)
class RelaySourceFactory:
    """Makes the source of a worker that trusts its controller, and takes the weights from relays.

    relays      URLs
    public_key  the key that must have signed the weights
    """

    relays: tuple[str, ...]
    public_key: bytes

    def __call__(self, spec: EngineSpec) -> RelaySource:
        """Return the source for a run."""
        run = sanitize_run_name(spec.run)
        return RelaySource(self.relays, run, self.public_key, folder_of(run, self.public_key))


def folder_of(run: str, public: bytes) -> Path:
    """Return a folder that all workers of this machine and user share if they work for the same run."""
    return default_folder(f"relays-{blake3(public + run.encode()).hexdigest(8)}")
