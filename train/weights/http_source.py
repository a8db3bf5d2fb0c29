"""Download of weights over HTTP by their manifest, over several connections, verified by digests.

An interrupted download resumes by range requests, even after SIGKILL.
"""

import logging
import os
import re
import shutil
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from blake3 import blake3

from sandbox.http_client import HttpClient, ServerUnreachable
from train.errors import TransferError
from train.weights.manifest import WeightFile, WeightManifest
from train.weights.source import TensorFiles
from train.weights.version_folder import VersionFolder, locate_default_folder

log = logging.getLogger(__name__)

_CONNECTIONS = 4  # files downloaded concurrently
_CHUNK_BYTES = 2**20
_READ_SECONDS = 60.0
_MAX_FAILED_ATTEMPTS = 6  # successive attempts without progress
_MIN_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS = 0.25, 8.0
_RETRYABLE_STATUSES = {408, 429, 500, 502, 503, 504}  # transient: a retry may succeed
_NAME = re.compile(r"\w[\w.-]*")  # of a file in an untrusted manifest; excludes path separators
_FREE_FACTOR = 1.05  # times the missing bytes must be free: a full disk breaks other programs


class HttpSource:
    """A `WeightSource` of a controller's files, URL/weights/VERSION/NAME.

    url      http://HOST:PORT
    headers  headers of every request, such as the token's
    folder   storage of the files while engines read them
    """

    def __init__(self, url: str, headers: Mapping[str, str], folder: Path) -> None:
        self._client = HttpClient(url, headers=headers, connections=_CONNECTIONS)
        self._versions = VersionFolder(folder, keep=1)

    def fetch(self, manifest: WeightManifest) -> TensorFiles:
        """Download missing files. All files stay readable until the next call; see `WeightSource`."""
        if unsafe := [file.name for file in manifest.files if not _NAME.fullmatch(file.name)]:
            raise TransferError(
                f"the manifest of weights {manifest.version} names {unsafe[0]!r}, which is not a plain file name"
            )
        # Versions of different runs may have the same number.
        digest = blake3("".join(file.blake3 for file in manifest.files).encode()).hexdigest(8)
        name = f"weights-{manifest.version:06d}-{digest}"
        folder, part = self._versions.path / name, self._versions.locate_partial(name)
        try:
            self._versions.create()
            with self._versions.lock_exclusively():
                # Sizes suffice: the proof detects damage after the download.
                if any(_get_size(folder / file.name) != file.size for file in manifest.files):
                    shutil.rmtree(folder, ignore_errors=True)
                    self._download(manifest, part)
                    part.rename(folder)
                self._versions.mark_in_use(name)
                self._versions.remove_unused()
        except OSError as error:
            raise TransferError(
                f"cannot store weights {manifest.version} in {self._versions.path}: {error}. Free disk space, or set "
                "TMPDIR to another folder"
            ) from error
        return TensorFiles(tuple(folder / file.name for file in manifest.files))

    def close(self) -> None:
        """Remove versions that no process of this machine reads."""
        self._client.close()
        self._versions.close()

    def _download(self, manifest: WeightManifest, part: Path) -> None:
        part.mkdir(exist_ok=True)
        missing = sum(file.size - min(_get_size(part / file.name), file.size) for file in manifest.files)
        free = shutil.disk_usage(part).free
        if missing * _FREE_FACTOR > free:
            raise OSError(f"{missing:,} bytes are missing, and {free:,} are free")
        with ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="weights") as threads:
            # An error ends the iteration, which cancels queued downloads.
            list(threads.map(partial(self._download_file, manifest.version, part), manifest.files))

    def _download_file(self, version: int, part: Path, file: WeightFile) -> None:
        path = part / file.name
        for _ in range(2):
            self._download_missing_bytes(version, file, path)
            if blake3(max_threads=blake3.AUTO).update_mmap(path).hexdigest() == file.blake3:
                return
            path.unlink()
            log.warning("%s of weights %d is damaged", file.name, version)
        raise TransferError(
            f"{file.name} of weights {version} differs from its digest in the manifest, twice. A proxy between here "
            f"and {self._client.url} may alter it."
        )

    def _download_missing_bytes(self, version: int, file: WeightFile, path: Path) -> None:
        pause_seconds, failed_attempts, before = _MIN_BACKOFF_SECONDS, 0, -1
        while (size := _get_size(path)) < file.size:
            failed_attempts = failed_attempts + 1 if size == before else 0
            before = size
            if failed_attempts == _MAX_FAILED_ATTEMPTS:
                raise TransferError(f"{file.name} of weights {version} stalls at {size:,} of {file.size:,} bytes")
            if failed_attempts:
                time.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, _MAX_BACKOFF_SECONDS)
            try:
                self._request_range(version, file, path, size)
            except ServerUnreachable as error:
                log.info("%s of weights %d: interrupted at %d bytes: %s", file.name, version, _get_size(path), error)
        if size > file.size:
            os.truncate(path, 0)
            raise TransferError(
                f"{file.name} of weights {version} is longer than the {file.size:,} bytes in its manifest"
            )

    def _request_range(self, version: int, file: WeightFile, path: Path, size: int) -> None:
        """Append the rest of a file. Raises ServerUnreachable if interrupted, and TransferError for a missing file."""
        url, headers = f"/weights/{version}/{file.name}", {"range": f"bytes={size}-"}
        with self._client.open_response("GET", url, read_seconds=_READ_SECONDS, headers=headers, unpack=False) as reply:
            if reply.status in _RETRYABLE_STATUSES:
                raise ServerUnreachable(f"HTTP {reply.status}")
            if reply.status not in (200, 206):
                raise TransferError(
                    f"weights {version} were removed: {self._client.url} returns HTTP {reply.status} for {file.name}"
                )
            # A server without support for ranges sends the whole file.
            with path.open("ab" if reply.status == 206 else "wb") as into:
                while chunk := reply.read1(_CHUNK_BYTES):  # `read` would lose received bytes at a disconnect
                    into.write(chunk)


def locate_download_folder(url: str) -> Path:
    """Return the folder shared by all workers of this machine and user for the same run."""
    return locate_default_folder(blake3(url.encode()).hexdigest(8))


def _get_size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
