"""The origin of a run's weights: a folder or an object store to which the coordinator publishes versions.

An origin holds plain files, so nginx or a bucket can serve them; see manifest.py for their paths. `latest` names only
complete versions. A published manifest is never rewritten, since relays may already have it.
"""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from train.errors import ConfigError, RunError, TransferError
from train.swarm.broadcast.delta import make_delta
from train.swarm.broadcast.manifest import (
    DELTA,
    BroadcastManifest,
    LatestVersion,
    WeightShard,
    add_base_versions,
    build_file_path,
    build_latest_path,
    build_manifest_path,
    build_version_path,
    compute_digest,
    has_same_weights,
    read_latest,
    read_manifest,
    sign_latest,
    sign_manifest,
)
from train.swarm.signatures import BadSignature, public_key_bytes
from train.weights.manifest import WeightManifest

if TYPE_CHECKING:
    from obstore.store import ObjectStore

log = logging.getLogger(__name__)

SHARD_BYTES = 8 * 2**20
FULL_VERSION_INTERVAL = 10  # versions; a new worker fetches the newest full version and the deltas after it
RETAINED_VERSIONS = 5
_Message = TypeVar("_Message")
_MAX_DELTA_SHARE = 0.35  # maximum size of deltas, as a share of the full files; otherwise they are published in full


class Origin:
    """A publisher of the versions of one run, which continues after the versions of an earlier process.

    store                  URL of a folder (file:///...) or a bucket (s3://..., gs://...)
    key                    private key of the run; every invite contains the public key
    full_version_interval  maximum number of versions from one full version to the next
    keep                   number of versions to retain, in addition to their bases

    Raises ConfigError if the URL is invalid, TransferError if the store cannot be read, and RunError if the store holds
    weights of another run.
    """

    def __init__(
        self, store: str, run: str, key: Ed25519PrivateKey, *, shard_bytes: int = SHARD_BYTES,
        full_version_interval: int = FULL_VERSION_INTERVAL, keep: int = RETAINED_VERSIONS,
    ) -> None:  # fmt: skip
        self._store, self._run, self._key, self._public_key = _open_store(store), run, key, public_key_bytes(key)
        self._shard_bytes, self._full_version_interval, self._keep = shard_bytes, full_version_interval, keep
        self._previous: tuple[WeightManifest, Path] | None = None
        self._bases: dict[int, int | None] = {}  # base of each retained version
        self._last_full_version = 0
        self._ledger_head = b""
        self._latest = self._load(build_latest_path(run), lambda signed: read_latest(signed, run, self._public_key))
        if self._latest is not None:
            self._restore_bases(self._latest.version)

    @property
    def latest(self) -> LatestVersion | None:
        """The newest published version; None before the first."""
        return self._latest

    def publish(self, weights: WeightManifest, folder: Path) -> BroadcastManifest | None:
        """Publish a version unless it was published earlier, and return its manifest.

        folder: folder of the files; they must stay unchanged until the next version is published, as a delta from them

        Returns None for a version older than the newest that has no stored manifest. Raises TransferError if the store
        cannot be written, and RunError if the version was published with other weights.
        """
        manifest = self._load_published_manifest(weights)
        if self._latest is not None and weights.version <= self._latest.version:
            if weights.version == self._latest.version:
                self._previous = weights, folder
            return manifest
        if manifest is None:
            manifest = self._write(weights, folder)
        signed = self._read(build_manifest_path(self._run, weights.version)) or b""
        self._previous = weights, folder
        self._record_base(manifest)
        self._latest = LatestVersion(self._run, weights.version, compute_digest(signed), time.time())
        self.renew()
        self._remove_old_versions()
        return manifest

    def renew(self, ledger_head: bytes | None = None) -> None:
        """Sign `latest` with the current time, since clients avoid relays with an old `latest`.

        ledger_head: digest of the newest entry of the run's ledger; None if unchanged
        """
        self._ledger_head = self._ledger_head if ledger_head is None else ledger_head
        if self._latest is not None:
            self._latest = replace(self._latest, issued_at=time.time(), ledger_head=self._ledger_head)
            self._put(build_latest_path(self._run), sign_latest(self._latest, self._key))

    def _load_published_manifest(self, weights: WeightManifest) -> BroadcastManifest | None:
        """Return the stored manifest of a version; None if unpublished. Raises RunError if it has other weights."""
        manifest = self._load_manifest(weights.version)
        if manifest is not None and not has_same_weights(manifest.weights, weights):
            raise RunError(
                f"version {weights.version} of {self._run} was published with other weights, so this run was restarted "
                "or continued from an earlier step. Publish the run under another name or in another folder."
            )
        return manifest

    def _write(self, weights: WeightManifest, folder: Path) -> BroadcastManifest:
        """Write the files of a version, then its manifest."""
        deltas = self._make_deltas(weights, folder)
        shards = list[WeightShard]()
        for number, file in enumerate(weights.files):
            name = file.name if deltas is None else file.name + DELTA
            content = (folder / name).read_bytes() if deltas is None else deltas[number]
            for offset in range(0, len(content), self._shard_bytes):
                shard = content[offset : offset + self._shard_bytes]
                shards.append(WeightShard(name, offset, len(shard), compute_digest(shard)))
            self._put(build_file_path(self._run, weights.version, name), content)
        base = None if deltas is None or self._previous is None else self._previous[0].version
        manifest = BroadcastManifest(
            run=self._run,
            version=weights.version,
            base=base,
            shards=tuple(shards),
            weights=weights,
            next_full_version=(weights.version if base is None else self._last_full_version)
            + self._full_version_interval,
        )
        self._put(build_manifest_path(self._run, weights.version), sign_manifest(manifest, self._key))
        return manifest

    def _make_deltas(self, weights: WeightManifest, folder: Path) -> list[bytes] | None:
        """Return the deltas of all files from the previous version; None if a full version must be published."""
        if self._previous is None or weights.version >= self._last_full_version + self._full_version_interval:
            return None
        previous, previous_folder = self._previous
        if [(file.name, file.size) for file in previous.files] != [(file.name, file.size) for file in weights.files]:
            return None
        deltas = [
            make_delta((previous_folder / file.name).read_bytes(), (folder / file.name).read_bytes())
            for file in weights.files
        ]
        return deltas if sum(map(len, deltas)) <= _MAX_DELTA_SHARE * sum(file.size for file in weights.files) else None

    def _record_base(self, manifest: BroadcastManifest) -> None:
        self._bases[manifest.version] = manifest.base
        if manifest.base is None:
            self._last_full_version = max(self._last_full_version, manifest.version)

    def _restore_bases(self, version: int) -> None:
        """Record the bases of a stored version, transitively."""
        wanted: int | None = version
        while wanted is not None and (manifest := self._load_manifest(wanted)) is not None:
            self._record_base(manifest)
            wanted = manifest.base

    def _remove_old_versions(self) -> None:
        """Remove all but the newest `keep` versions and their bases."""
        newest = sorted(self._bases)[-self._keep :]
        for version in sorted(set(self._bases) - add_base_versions(newest, self._bases)):
            del self._bases[version]
            self._remove(version)

    def _load_manifest(self, version: int) -> BroadcastManifest | None:
        path = build_manifest_path(self._run, version)
        return self._load(path, lambda signed: read_manifest(signed, self._run, version, self._public_key))

    def _load(self, path: str, read: Callable[[bytes], _Message]) -> _Message | None:
        signed = self._read(path)
        try:
            return None if signed is None else read(signed)
        except BadSignature as error:
            raise RunError(f"the store holds weights of another run: {error}. Use another store.") from error

    def _read(self, path: str) -> bytes | None:
        import obstore

        try:
            return bytes(obstore.get(self._store, path).bytes())
        except FileNotFoundError:
            return None
        except Exception as error:  # obstore's exceptions differ by store and failure
            raise TransferError(f"cannot read {path}: {_extract_first_line(error)}. Check the store.") from error

    def _put(self, path: str, content: bytes) -> None:
        import obstore

        try:
            obstore.put(self._store, path, content)
        except Exception as error:  # obstore's exceptions differ by store and failure
            reason = _extract_first_line(error)
            raise TransferError(f"cannot publish {path}: {reason}. Free disk space, or check the store.") from error

    def _remove(self, version: int) -> None:
        import obstore

        try:
            # Delete the manifest first, so no client starts to download the version during its deletion.
            obstore.delete(self._store, build_manifest_path(self._run, version))
            found = obstore.list(self._store, prefix=build_version_path(self._run, version)).collect()
            obstore.delete(self._store, [each["path"] for each in found])
        except Exception as error:  # obstore's exceptions differ by store and failure
            log.warning("version %d of %s stays in the store; it cannot be removed: %s", version, self._run, error)


def _open_store(url: str) -> "ObjectStore":
    from obstore.store import LocalStore, from_url

    if url.startswith("file://"):
        folder = Path(url.removeprefix("file://"))
        for temporary in folder.glob("runs/**/*#*"):  # files NAME#1 that obstore left in a killed process
            temporary.unlink(missing_ok=True)
        return LocalStore(folder, mkdir=True, automatic_cleanup=True)
    try:
        return from_url(url)
    except Exception as error:  # obstore's exceptions differ by store and failure
        raise ConfigError(
            f"--store {url}: {_extract_first_line(error)}. Give a URL such as s3://BUCKET/FOLDER or gs://BUCKET"
        ) from error


def _extract_first_line(error: Exception) -> str:
    """Return obstore's message, which is the first line, without the debug output after it."""
    return str(error).partition("\n")[0]
