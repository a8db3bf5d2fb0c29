"""A relay's copy of the newest versions of one run, fetched from other relays or the origin.

A relay serves each verified shard before the rest of the version arrives, so a chain of relays is hardly slower than
one. A restarted relay reuses its stored shards.
"""

import logging
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

from train.errors import TransferError
from train.swarm.broadcast.manifest import (
    BroadcastManifest,
    LatestVersion,
    add_base_versions,
    build_latest_path,
    build_manifest_path,
    build_version_path,
    read_manifest,
)
from train.swarm.broadcast.relay_client import RelayClient
from train.swarm.broadcast.shard_download import ShardFiles, TransferDeadline
from train.swarm.folder import NEW_PREFIX, write_atomic
from train.swarm.signatures import BadSignature

log = logging.getLogger(__name__)

RETAINED_VERSIONS = 5
POLL_SECONDS = 3.0
_MANIFEST_SECONDS = 30.0
# Time without a new shard after which the mirror abandons a version, since a newer one may exist. Each failure doubles
# it, so slow connections finish eventually.
_STALL_SECONDS, _MAX_STALL_SECONDS = 60.0, 3600.0


class Mirror:
    """A copy of the newest versions of a run in `folder`.

    download  client that fetches the versions
    keep      number of versions to retain, in addition to their bases
    note      receives a message about each complete version

    Raises TransferError if the disk is full.
    """

    def __init__(
        self, folder: Path, run: str, public_key: bytes, download: RelayClient, *, keep: int = RETAINED_VERSIONS,
        note: Callable[[str], object] = log.info,
    ) -> None:  # fmt: skip
        self.folder, self._run, self._download, self._keep, self._note = folder, run, download, keep, note
        self._manifests: dict[int, BroadcastManifest] = {}
        self._files: dict[str, ShardFiles] = {}  # files of each version, by the version's path
        self._signed_latest = b""
        self._stall_seconds = _STALL_SECONDS
        self._restore(public_key)
        download.load_stored_latest(folder / build_latest_path(run))

    def sync_until_stopped(self, stop: threading.Event, *, interval_seconds: float) -> None:
        """Fetch each new version until `stop` is set; retry after failures."""
        is_failing = False
        while not stop.is_set():
            try:
                self.sync_newest()
                is_failing = False
            except TransferError as error:
                (log.debug if is_failing else log.warning)("%s; retrying in %.0f s", error, interval_seconds)
                is_failing = True
            stop.wait(interval_seconds)

    def sync_newest(self) -> None:
        """Fetch the newest version and its bases. Raises TransferError if that fails or the disk is full."""
        latest, signed = self._download.fetch_signed_latest()
        try:
            self._fetch_manifests(latest)
            if signed != self._signed_latest:
                self._write(
                    build_latest_path(self._run), signed
                )  # before the shards, so clients can fetch each shard once it is complete
                self._signed_latest = signed
            for version in sorted(add_base_versions([latest.version], self._map_bases())):
                self._fetch_shards(self._manifests[version])
            self._remove_old_versions()
        except OSError as error:
            self._remove_old_versions()
            raise TransferError(f"cannot store weights in {self.folder}: {error}. Free disk space.") from error

    def find_partial_file(self, path: str, start: int, stop: int) -> Path | None:
        """Return the path of the partial file for `path` if it already has the bytes [start, stop); otherwise None."""
        version, _, name = path.rpartition("/")
        return None if (files := self._files.get(version)) is None else files.find_partial_file(name, start, stop)

    def _restore(self, public_key: bytes) -> None:
        """Load the versions of an earlier process; remove versions without a valid manifest of this run."""
        run_folder = (self.folder / build_latest_path(self._run)).parent
        for temporary in run_folder.rglob(f"{NEW_PREFIX}*"):
            temporary.unlink(missing_ok=True)
        for version in (int(each.name) for each in run_folder.glob("*") if each.name.isdigit()):
            try:
                signed = (self.folder / build_manifest_path(self._run, version)).read_bytes()
                manifest = read_manifest(signed, self._run, version, public_key)
            except (OSError, BadSignature):
                shutil.rmtree(self.folder / build_version_path(self._run, version), ignore_errors=True)
                continue
            try:
                self._open(manifest)
            except OSError as error:
                raise TransferError(f"cannot store weights in {self.folder}: {error}. Free disk space.") from error

    def _fetch_manifests(self, latest: LatestVersion) -> None:
        """Fetch the manifests of a version and its bases."""
        wanted: int | None = latest.version
        while wanted is not None:
            if wanted not in self._manifests:
                manifest, signed = self._download.fetch_manifest(wanted, seconds=_MANIFEST_SECONDS)
                self._write(build_manifest_path(self._run, wanted), signed)
                self._open(manifest)
            wanted = self._manifests[wanted].base

    def _open(self, manifest: BroadcastManifest) -> None:
        path = build_version_path(self._run, manifest.version)
        self._files[path] = ShardFiles(self.folder / path, manifest.shards)
        self._manifests[manifest.version] = manifest

    def _map_bases(self) -> dict[int, int | None]:
        return {number: manifest.base for number, manifest in self._manifests.items()}

    def _fetch_shards(self, manifest: BroadcastManifest) -> None:
        version, start_time = manifest.version, time.monotonic()
        files = self._files[build_version_path(self._run, version)]
        n_bytes = sum(manifest.shards[number].length for number in files.missing)
        if not n_bytes:
            return
        deadline = TransferDeadline(stall_seconds=self._stall_seconds)
        self._stall_seconds = min(2 * self._stall_seconds, _MAX_STALL_SECONDS)
        self._download.fetch_shards(manifest, files, deadline)
        self._stall_seconds = _STALL_SECONDS
        kind = "full" if manifest.base is None else f"delta from version {manifest.base}"
        self._note(
            f"version {version} is complete: {n_bytes / 1e6:.1f} MB, {kind}, in {time.monotonic() - start_time:.1f} s"
        )

    def _remove_old_versions(self) -> None:
        """Remove all but the newest `keep` versions and their bases."""
        bases = self._map_bases()
        for version in sorted(set(bases) - add_base_versions(sorted(bases)[-self._keep :], bases)):
            del self._manifests[version]
            self._files.pop(build_version_path(self._run, version), None)
            shutil.rmtree(self.folder / build_version_path(self._run, version), ignore_errors=True)

    def _write(self, path: str, content: bytes) -> None:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target, content)
