"""The versions of a run on a worker's disk: fetched from relays, whole or as differences from the one before.

A version stands under its final name only when each of its files has the digest that the run has signed. A worker that
was killed goes on with the shards that it has.
"""

import logging
import os
import shutil
import time
from collections import deque
from contextlib import suppress
from math import inf
from pathlib import Path

from blake3 import blake3

from sandbox.concurrency.file_lock import FileLock
from train.errors import TransferError
from train.swarm.broadcast.delta import BadDelta, apply_delta
from train.swarm.broadcast.manifest import BroadcastManifest
from train.swarm.broadcast.relay_client import RelayClient
from train.swarm.broadcast.shard_download import TransferDeadline

log = logging.getLogger(__name__)

_LOCK, _IN_USE = ".lock", ".in-use-"


class SharedVersionFolder:
    """The versions in a folder.

    keep  versions that this process uses last; no process removes them
    """

    def __init__(self, folder: Path, keep: int) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            raise TransferError(f"{folder} belongs to another user. Name another folder.")
        self.folder = folder
        self._keep = keep
        self._used: deque[tuple[int, FileLock]] = deque()  # versions, and the locks on them

    def version_path(self, version: int) -> Path:
        """Return where a version is, or would be."""
        return self.folder / f"{version:06d}"

    def exclusive_lock(self, deadline: float) -> FileLock:
        """Be the one process that changes the folder. Raises TransferError if another one is until that time."""
        in_use = TransferError(f"another process of this machine still fetches to {self.folder}")
        return FileLock(self.folder / _LOCK, in_use, wait_seconds=deadline - time.monotonic())

    def mark_in_use(self, version: int) -> None:
        """Let other processes know that this one reads a version, and no longer those long before. Needs the lock."""
        for used in [used for used in self._used if used[0] == version]:
            self._used.remove(used)
            used[1].close()
        self._used.append((version, FileLock(self._lock_on(version), shared=True)))
        while len(self._used) > self._keep:
            self._used.popleft()[1].close()

    def remove_unused(self) -> None:
        """Remove all that no process uses. Needs the lock, so that nothing is being fetched."""
        for part in self.folder.glob("*.part"):
            shutil.rmtree(part, ignore_errors=True)
        for place in self.folder.iterdir():
            if place.name.isdigit():
                self.remove_if_unused(int(place.name))

    def remove_if_unused(self, version: int) -> None:
        """Remove a version that no process uses. Needs the lock."""
        with suppress(OSError), FileLock(self._lock_on(version), temporary=True):
            shutil.rmtree(self.version_path(version), ignore_errors=True)

    def close(self) -> None:
        """Use nothing any more, and remove what others do not use either."""
        while self._used:
            self._used.popleft()[1].close()
        with suppress(OSError, TransferError), self.exclusive_lock(0.0):
            self.remove_unused()

    def _lock_on(self, version: int) -> Path:
        return self.folder / f"{_IN_USE}{version:06d}"


_RETAINED_VERSIONS = 2
_HAVE = ".have"  # one byte for each shard of the body: 1 if it is there
_DELTA = ".delta"


class VersionStore:
    """The versions in a folder, which several processes of one user may share.

    keep  so many versions, those that were fetched last, stay
    """

    def __init__(self, folder: Path, download: RelayClient, *, keep: int = _RETAINED_VERSIONS) -> None:
        self._folder, self._download = SharedVersionFolder(folder, keep), download

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
                self._folder.mark_in_use(version)
                self._folder.remove_unused()
        except BadDelta as error:
            raise TransferError(f"version {version} cannot be put together: {error}") from error
        except OSError as error:
            raise TransferError(
                f"cannot keep version {version} in {self._folder.folder}: {error}. Make room there."
            ) from error
        return self._folder.version_path(version), manifest

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
        while wanted is not None and not (may_differ and chain and self._folder.version_path(wanted).is_dir()):
            manifest, _ = self._download.fetch_manifest(wanted, seconds=deadline.remaining())
            chain.append(manifest)
            if wanted == version and may_differ and _is_right(manifest, self._folder.version_path(version)):
                return manifest
            wanted = manifest.base
        made: int | None = None
        for manifest in reversed(chain):
            is_new = self._complete(manifest, deadline)
            if made is not None:
                self._folder.remove_if_unused(made)  # it was a step on the way
            made = manifest.version if is_new else None
        return chain[0]

    def _complete(self, manifest: BroadcastManifest, deadline: TransferDeadline) -> bool:
        """Bring a version to the disk whose base is there. Return whether it was not there before."""
        place = self._folder.version_path(manifest.version)
        if _is_right(manifest, place):
            return False
        shutil.rmtree(place, ignore_errors=True)
        part = place.with_suffix(".part")
        part.mkdir(exist_ok=True)
        _Body(manifest, part).fetch(self._download, deadline)
        if manifest.base is not None:
            _apply(manifest, self._folder.version_path(manifest.base), part)
        for file in manifest.weights.files:
            if _digest(part / file.name) != file.blake3:
                shutil.rmtree(part)
                raise BadDelta(f"{file.name} of version {manifest.version} is not what the run has signed")
        for name in (_HAVE, _DELTA):
            (part / name).unlink(missing_ok=True)
        part.rename(place)
        return True


class _Body:
    """The body of a version, as it arrives: the files themselves, or one file of differences."""

    def __init__(self, manifest: BroadcastManifest, part: Path) -> None:
        self._manifest = manifest
        whole = [(part / file.name, file.size) for file in manifest.weights.files]
        self._files = whole if manifest.base is None else [(part / _DELTA, manifest.body_bytes)]
        self._have = part / _HAVE

    def fetch(self, download: RelayClient, deadline: TransferDeadline) -> None:
        """Fetch the shards that are not there."""
        n_shards = len(self._manifest.shard_digests)
        have = self._have.read_bytes() if self._have.exists() else b""
        if len(have) != n_shards or not all(path.exists() for path, _ in self._files):
            have = bytes(n_shards)
            self._have.write_bytes(have)
            for path, size in self._files:
                with path.open("wb") as file:
                    file.truncate(size)
        missing = [shard for shard in range(n_shards) if not have[shard]]
        download.fetch_shards(self._manifest, missing, self._keep, deadline)

    def _keep(self, shard: int, content: bytes) -> None:
        """Write a shard where it belongs, in one or several files, then note that it is there."""
        start, recomputation = shard * self._manifest.shard_bytes, memoryview(content)
        for path, size in self._files:
            if start < size and recomputation:
                written = recomputation[: size - start]
                _write_at(path, start, written)
                recomputation = recomputation[len(written) :]
            start = max(start - size, 0)
        _write_at(self._have, shard, b"\1")


def _write_at(path: Path, place: int, content: bytes | memoryview) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        while content:
            n = os.pwrite(descriptor, content, place)
            content, place = content[n:], place + n
    finally:
        os.close(descriptor)


def _apply(manifest: BroadcastManifest, base: Path, part: Path) -> None:
    """Put the files together from those of the base and the differences. Raises BadDelta if they do not fit."""
    deltas = memoryview((part / _DELTA).read_bytes())
    for file in manifest.weights.files:
        if not (base / file.name).is_file():
            raise BadDelta(f"version {manifest.base} has no {file.name}")
        content, end = apply_delta((base / file.name).read_bytes(), deltas)
        (part / file.name).write_bytes(content)
        deltas = deltas[end:]
    if deltas:
        raise BadDelta("it is longer than its files")


def _is_right(manifest: BroadcastManifest, place: Path) -> bool:
    files = manifest.weights.files
    return all((place / file.name).is_file() and _digest(place / file.name) == file.blake3 for file in files)


def _digest(path: Path) -> str:
    return blake3(max_threads=blake3.AUTO).update_mmap(path).hexdigest()
