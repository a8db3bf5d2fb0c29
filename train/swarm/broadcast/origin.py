"""The trainer's side: write versions of the weights to a folder or an object store.

What is written are plain files (manifest.py has their paths), so nginx or a bucket can serve them. `latest` names
a version when all of it is there. A manifest that was written is never written again, also after a restart: relays
may have it.
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
    digest,
    file_path,
    has_same_weights,
    latest_path,
    manifest_path,
    read_latest,
    read_manifest,
    sign_latest,
    sign_manifest,
    version_path,
    with_base_versions,
)
from train.swarm.signatures import BadSignature, public_key_bytes
from train.weights.manifest import WeightManifest

if TYPE_CHECKING:
    from obstore.store import ObjectStore

log = logging.getLogger(__name__)

SHARD_BYTES = 8 * 2**20
FULL_VERSION_INTERVAL = 10  # versions: a worker that joins takes the newest anchor and the differences after it
RETAINED_VERSIONS = 5
_Message = TypeVar("_Message")
_WORTH_IT = 0.35  # share of the files above which a difference is not worth its trouble


class Origin:
    """Publishes versions of one run, and continues where an earlier process of the same run has stopped.

    store         URL of a folder (file:///...) or a bucket (s3://..., gs://...)
    key           the run's; its public half is in every invite
    anchor_every  one of so many versions is whole, so that a worker can join without all earlier ones
    keep          so many versions, and all that the oldest of them is a difference from

    Raises ConfigError if there can be no such store, TransferError if it cannot be read, and RunError if another run
    has written to it.
    """

    def __init__(
        self, store: str, run: str, key: Ed25519PrivateKey, *, shard_bytes: int = SHARD_BYTES,
        anchor_every: int = FULL_VERSION_INTERVAL, keep: int = RETAINED_VERSIONS,
    ) -> None:  # fmt: skip
        self._store, self._run, self._key, self._public = _opened(store), run, key, public_key_bytes(key)
        self._shard_bytes, self._anchor_every, self._keep = shard_bytes, anchor_every, keep
        self._before: tuple[WeightManifest, Path] | None = None
        self._bases: dict[int, int | None] = {}  # of the versions that are kept
        self._anchor = 0
        self._ledger = b""
        self._latest = self._stored(latest_path(run), lambda sealed: read_latest(sealed, run, self._public))
        if self._latest is not None:
            self._note_chain(self._latest.version)

    @property
    def latest(self) -> LatestVersion | None:
        """The newest version that was published; None if there is none."""
        return self._latest

    def publish(self, weights: WeightManifest, folder: Path) -> BroadcastManifest | None:
        """Write a version, and name it as the newest.

        folder   holds the files of the weights. It has to stay until the next version is published, because that is
                 written as the difference from it

        Return None if the version is older than the newest, and was never published: a run that was continued from an
        earlier step passes such versions. Raises TransferError if the store takes no more, and RunError if the version
        was published with other weights.
        """
        manifest = self._published(weights)
        if self._latest is not None and weights.version <= self._latest.version:
            if weights.version == self._latest.version:
                self._before = weights, folder
            return manifest
        if manifest is None:
            manifest = self._write(weights, folder)
        sealed = self._read(manifest_path(self._run, weights.version)) or b""
        self._before = weights, folder
        self._note(manifest)
        self._latest = LatestVersion(self._run, weights.version, digest(sealed), time.time())
        self.renew()
        self._drop()
        return manifest

    def renew(self, ledger_head: bytes | None = None) -> None:
        """Sign the name of the newest version again: workers distrust relays whose `latest` is old.

        ledger_head   digest of the newest entry of the run's ledger; None: as before
        """
        self._ledger = self._ledger if ledger_head is None else ledger_head
        if self._latest is not None:
            self._latest = replace(self._latest, issued_at=time.time(), ledger_head=self._ledger)
            self._put(latest_path(self._run), sign_latest(self._latest, self._key))

    def _published(self, weights: WeightManifest) -> BroadcastManifest | None:
        """Return what was published as a version before. Raises RunError if it has other weights."""
        manifest = self._stored_manifest(weights.version)
        if manifest is not None and not has_same_weights(manifest.weights, weights):
            raise RunError(
                f"version {weights.version} of {self._run} was published with other weights. A run that was continued "
                "from an earlier step, or begun anew, has to be published under another name or in another folder."
            )
        return manifest

    def _write(self, weights: WeightManifest, folder: Path) -> BroadcastManifest:
        """Write the files of a version, then its manifest."""
        deltas = self._deltas(weights, folder)
        shards = list[WeightShard]()
        for number, file in enumerate(weights.files):
            name = file.name if deltas is None else file.name + DELTA
            content = (folder / name).read_bytes() if deltas is None else deltas[number]
            for offset in range(0, len(content), self._shard_bytes):
                shard = content[offset : offset + self._shard_bytes]
                shards.append(WeightShard(name, offset, len(shard), digest(shard)))
            self._put(file_path(self._run, weights.version, name), content)
        base = None if deltas is None or self._before is None else self._before[0].version
        manifest = BroadcastManifest(
            run=self._run,
            version=weights.version,
            base=base,
            shards=tuple(shards),
            weights=weights,
            next_full_version=(weights.version if base is None else self._anchor) + self._anchor_every,
        )
        self._put(manifest_path(self._run, weights.version), sign_manifest(manifest, self._key))
        return manifest

    def _deltas(self, weights: WeightManifest, folder: Path) -> list[bytes] | None:
        """Return the differences from the version before; None if it has other files, or if they are not small."""
        if self._before is None or weights.version >= self._anchor + self._anchor_every:
            return None
        before, earlier = self._before
        if [(file.name, file.size) for file in before.files] != [(file.name, file.size) for file in weights.files]:
            return None
        deltas = [
            make_delta((earlier / file.name).read_bytes(), (folder / file.name).read_bytes()) for file in weights.files
        ]
        return deltas if sum(map(len, deltas)) <= _WORTH_IT * sum(file.size for file in weights.files) else None

    def _note(self, manifest: BroadcastManifest) -> None:
        self._bases[manifest.version] = manifest.base
        if manifest.base is None:
            self._anchor = max(self._anchor, manifest.version)

    def _note_chain(self, version: int) -> None:
        """Take note of a version in the store, and of all that it is a difference from."""
        wanted: int | None = version
        while wanted is not None and (manifest := self._stored_manifest(wanted)) is not None:
            self._note(manifest)
            wanted = manifest.base

    def _drop(self) -> None:
        """Remove the versions that no worker needs any more."""
        newest = sorted(self._bases)[-self._keep :]
        for version in sorted(set(self._bases) - with_base_versions(newest, self._bases)):
            del self._bases[version]
            self._remove(version)

    def _stored_manifest(self, version: int) -> BroadcastManifest | None:
        path = manifest_path(self._run, version)
        return self._stored(path, lambda sealed: read_manifest(sealed, self._run, version, self._public))

    def _stored(self, path: str, read: Callable[[bytes], _Message]) -> _Message | None:
        sealed = self._read(path)
        try:
            return None if sealed is None else read(sealed)
        except BadSignature as error:
            raise RunError(f"the store holds weights of another run: {error}. Use a store of your own.") from error

    def _read(self, path: str) -> bytes | None:
        import obstore

        try:
            return bytes(obstore.get(self._store, path).bytes())
        except FileNotFoundError:
            return None
        except Exception as error:  # obstore has an exception of its own for each kind of store and failure
            raise TransferError(f"cannot read {path}: {_first_line(error)}. Check the store.") from error

    def _put(self, path: str, content: bytes) -> None:
        import obstore

        try:
            obstore.put(self._store, path, content)
        except Exception as error:  # as above
            reason = _first_line(error)
            raise TransferError(f"cannot publish {path}: {reason}. Make room there, or check the store.") from error

    def _remove(self, version: int) -> None:
        import obstore

        try:
            # The manifest goes first, so that no client begins with a version that is about to go.
            obstore.delete(self._store, manifest_path(self._run, version))
            found = obstore.list(self._store, prefix=version_path(self._run, version)).collect()
            obstore.delete(self._store, [each["path"] for each in found])
        except Exception as error:  # as above; it costs room and nothing else
            log.warning("version %d of %s cannot be removed: %s", version, self._run, error)


def _opened(url: str) -> "ObjectStore":
    from obstore.store import LocalStore, from_url

    if url.startswith("file://"):
        folder = Path(url.removeprefix("file://"))
        for rest in folder.glob("runs/**/*#*"):  # the store writes NAME#1 first: left by a process that was killed
            rest.unlink(missing_ok=True)
        return LocalStore(folder, mkdir=True, automatic_cleanup=True)
    try:
        return from_url(url)
    except Exception as error:  # obstore has an exception of its own for each kind of store and failure
        raise ConfigError(
            f"--store {url}: {_first_line(error)}. Give a URL such as s3://BUCKET/FOLDER or gs://BUCKET"
        ) from error


def _first_line(error: Exception) -> str:
    """Return what obstore says, without the dump that follows."""
    return str(error).partition("\n")[0]
