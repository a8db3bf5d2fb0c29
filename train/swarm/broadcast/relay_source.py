"""A weight source that fetches from untrusted relays, and the folder of fetched versions.

A version is downloaded in full, or built from deltas and its base. Its folder gets its final name only when each file
has the digest in the signed manifest. A restarted worker reuses its stored shards.
"""

import logging
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
from train.swarm.broadcast.manifest import DELTA, BroadcastManifest, LatestVersion, has_same_weights, sanitize_run_name
from train.swarm.broadcast.relay_client import RelayClient
from train.swarm.broadcast.relay_selector import RelaySelector
from train.swarm.broadcast.shard_download import ShardFiles, TransferDeadline
from train.swarm.folder import write_atomic
from train.weights.manifest import WeightManifest
from train.weights.source import TensorFiles
from train.weights.version_folder import VersionFolder, locate_default_folder

log = logging.getLogger(__name__)

_MANIFEST_SECONDS = 30.0
STALL_SECONDS = 600.0
_RETAINED_VERSIONS = 2


class VersionStore:
    """The fetched versions in a folder, which several processes of one user may share.

    download  client that fetches from relays
    keep      number of most recently fetched versions to retain
    """

    def __init__(self, folder: Path, download: RelayClient, *, keep: int = _RETAINED_VERSIONS) -> None:
        self._folder, self._download = VersionFolder(folder, keep), download
        self._folder.create()

    def fetch(
        self, version: int, *, seconds: float = inf, stall_seconds: float = inf
    ) -> tuple[Path, BroadcastManifest]:
        """Fetch a version, and return its folder and manifest. The folder is valid until `keep` others are fetched.

        seconds        timeout for the version
        stall_seconds  maximum time without a new shard, once the folder is locked

        Raises TransferError if the relays do not send it in time, or the disk is full.
        """
        deadline = TransferDeadline.from_now(seconds, stall_seconds)
        try:
            with self._folder.lock_exclusively(deadline.until):
                deadline.record_progress()
                manifest = self._build_or_refetch(version, deadline)
                self._folder.mark_in_use(_format_version(version))
                self._folder.remove_unused()
        except BadDelta as error:
            raise TransferError(f"cannot build version {version} from its base: {error}") from error
        except OSError as error:
            raise TransferError(
                f"cannot store version {version} in {self._folder.path}: {error}. Free disk space."
            ) from error
        return self._locate_version(version), manifest

    def close(self) -> None:
        """Release the folders that `fetch` returned, and delete versions that no other process uses."""
        self._folder.close()

    def _build_or_refetch(self, version: int, deadline: TransferDeadline) -> BroadcastManifest:
        try:
            return self._build(version, deadline, trust_stored=True)
        except BadDelta as error:
            log.warning("the delta of version %d does not fit its base (%s); fetching a full version", version, error)
            return self._build(version, deadline, trust_stored=False)

    def _build(self, version: int, deadline: TransferDeadline, *, trust_stored: bool) -> BroadcastManifest:
        """Fetch a version and its missing bases, and apply the deltas.

        trust_stored: use stored bases without verifying their digests
        """
        chain: list[BroadcastManifest] = []
        wanted: int | None = version
        while wanted is not None and not (trust_stored and chain and self._locate_version(wanted).is_dir()):
            manifest, _ = self._download.fetch_manifest(wanted, seconds=deadline.get_remaining_seconds())
            chain.append(manifest)
            if wanted == version and trust_stored and _has_valid_files(manifest, self._locate_version(version)):
                return manifest
            wanted = manifest.base
        intermediate: int | None = None
        for manifest in reversed(chain):
            is_new = self._complete_version(manifest, deadline)
            if intermediate is not None:
                self._folder.remove_if_unused(_format_version(intermediate))
            intermediate = manifest.version if is_new else None
        return chain[0]

    def _complete_version(self, manifest: BroadcastManifest, deadline: TransferDeadline) -> bool:
        """Fetch a version whose base is stored. Return False if its files are already valid."""
        folder = self._locate_version(manifest.version)
        if _has_valid_files(manifest, folder):
            return False
        part = self._folder.locate_partial(folder.name)
        part.mkdir(exist_ok=True)
        for damaged in folder.glob("*"):  # their valid shards are reused
            damaged.replace(part / damaged.name)
        shutil.rmtree(folder, ignore_errors=True)
        self._download.fetch_shards(manifest, ShardFiles(part, manifest.shards), deadline)
        if manifest.base is not None:
            _apply_deltas(manifest, self._locate_version(manifest.base), part)
        for file in manifest.weights.files:
            if _hash_file(part / file.name) != file.blake3:
                shutil.rmtree(part)
                raise BadDelta(f"{file.name} of version {manifest.version} differs from its digest in the manifest")
        for delta in part.glob(f"*{DELTA}"):
            delta.unlink()
        part.rename(folder)
        return True

    def _locate_version(self, version: int) -> Path:
        return self._folder.path / _format_version(version)


def _format_version(version: int) -> str:
    return f"{version:06d}"


def _apply_deltas(manifest: BroadcastManifest, base: Path, part: Path) -> None:
    """Apply the deltas in `part` to the files of the base. Raises BadDelta if one does not fit."""
    for file in manifest.weights.files:
        if not (base / file.name).is_file():
            raise BadDelta(f"the base, version {manifest.base}, has no {file.name}")
        delta = (part / f"{file.name}{DELTA}").read_bytes()
        (part / file.name).write_bytes(apply_delta((base / file.name).read_bytes(), delta))


def _has_valid_files(manifest: BroadcastManifest, folder: Path) -> bool:
    files = manifest.weights.files
    return all((folder / file.name).is_file() and _hash_file(folder / file.name) == file.blake3 for file in files)


def _hash_file(path: Path) -> str:
    return blake3(max_threads=blake3.AUTO).update_mmap(path).hexdigest()


class RelaySource:
    """A weight source (train/weights/source.py) that fetches from relays.

    relays         URLs of relays
    run            name of the run, as in paths
    public_key     public key of the run
    folder         folder for the versions, which workers of this machine may share
    stall_seconds  timeout for a manifest, and maximum time without a new shard
    keep           number of most recently fetched versions to retain
    """

    def __init__(
        self, relays: Sequence[str], run: str, public_key: bytes, folder: Path, *,
        stall_seconds: float = STALL_SECONDS, keep: int = 2,
    ) -> None:  # fmt: skip
        self._download = RelayClient(RelaySelector(relays), run, public_key)
        self._versions = VersionStore(folder, self._download, keep=keep)
        self._stall_seconds = stall_seconds
        self._latest_path = folder / "latest"
        self._download.load_stored_latest(self._latest_path)

    def fetch_latest(self) -> LatestVersion:
        """Return the newest version, and store it for the next process. Raises TransferError if no relay has one."""
        latest, signed = self._download.fetch_signed_latest()
        with suppress(OSError):  # without the file, the next process may accept an older `latest`
            write_atomic(self._latest_path, signed)
        return latest

    def fetch_newest_manifest(self) -> WeightManifest:
        """Return the manifest of the newest version. Raises TransferError if no relay has it."""
        return self._fetch_manifest(self.fetch_latest().version, _MANIFEST_SECONDS).weights

    def fetch(self, manifest: WeightManifest) -> TensorFiles:
        """Fetch a version, unless it is stored already.

        Raises TransferError if the relays stop sending the version, or have other weights under its number.
        """
        with suppress(TransferError):  # there may be no version yet
            self._download.fetch_latest()  # so a version that all relays have dropped fails without a timeout
        broadcast = self._fetch_manifest(manifest.version, self._stall_seconds)
        if not has_same_weights(broadcast.weights, manifest):
            raise TransferError(
                f"the relays have other weights as version {manifest.version} than the controller: the run was "
                "continued from an earlier step, or another run has the same name. Publish it under another name."
            )
        folder, _ = self._versions.fetch(manifest.version, stall_seconds=self._stall_seconds)
        return TensorFiles(tuple(folder / file.name for file in broadcast.weights.files))

    def close(self) -> None:
        """Close the connections, and remove versions that no process of this machine uses."""
        self._download.close()
        self._versions.close()

    def _fetch_manifest(self, version: int, seconds: float) -> BroadcastManifest:
        return self._download.fetch_manifest(version, seconds=seconds)[0]


@dataclass(frozen=True, slots=True)
class RelaySourceFactory:
    """A factory of relay sources, for a worker that trusts its controller.

    relays      URLs of relays
    public_key  public key of the run, whose signatures the weights must have
    """

    relays: tuple[str, ...]
    public_key: bytes

    def __call__(self, spec: EngineSpec) -> RelaySource:
        run = sanitize_run_name(spec.run)
        return RelaySource(self.relays, run, self.public_key, locate_shared_folder(run, self.public_key))


def locate_shared_folder(run: str, public_key: bytes) -> Path:
    """Return the folder for a run's versions that all workers of this machine and user share."""
    return locate_default_folder(f"relays-{blake3(public_key + run.encode()).hexdigest(8)}")
