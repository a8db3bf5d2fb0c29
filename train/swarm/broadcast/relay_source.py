"""Weights from relays that nobody trusts, as engines take them."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3

from train.errors import TransferError
from train.sampling.engine_spec import EngineSpec
from train.swarm.broadcast.manifest import BroadcastManifest, LatestVersion, has_same_weights, sanitize_run_name
from train.swarm.broadcast.relay_client import RelayClient
from train.swarm.broadcast.relay_selector import RelaySelector
from train.swarm.broadcast.version_store import VersionStore
from train.weights.manifest import WeightManifest
from train.weights.source import TensorFiles

_MANIFEST_SECONDS = 30.0
STALL_SECONDS = 600.0


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
        return RelaySource(self.relays, run, self.public_key, default_folder(run, self.public_key))


def default_folder(run: str, public: bytes) -> Path:
    """Return a folder that all workers of this machine and user share if they work for the same run."""
    name = blake3(public + run.encode()).hexdigest(8)
    return Path(os.environ.get("TMPDIR", "/tmp")) / f"curate-weights-{os.getuid()}" / f"relays-{name}"
