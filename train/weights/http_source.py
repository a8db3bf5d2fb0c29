"""Weights as files over HTTP: fetched by manifest, in several connections, and checked by their digests.

A download that breaks off continues where it stopped, also after the process was killed. Processes of one machine that
name the same folder share it: one of them fetches a version, and the others wait and read it from there.
"""

import logging
import os
import re
import shutil
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from functools import partial
from math import inf
from pathlib import Path

import urllib3
from blake3 import blake3
from urllib3.exceptions import HTTPError

from sandbox.concurrency.file_lock import FileLock
from train.errors import TransferError
from train.weights.manifest import WeightFile, WeightManifest
from train.weights.source import TensorFiles

log = logging.getLogger(__name__)

_CONNECTIONS = 4  # files that are fetched at once
_CHUNK_BYTES = 2**20
_CONNECT_SECONDS, _READ_SECONDS = 10.0, 60.0
_MAX_FAILED_ATTEMPTS = 6  # successive attempts that bring no byte
_MIN_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS = 0.25, 8.0
_RETRYABLE_STATUSES = {408, 429, 500, 502, 503, 504}  # statuses after which the same request may succeed later
_NAME = re.compile(r"\w[\w.-]*")  # of a file; a manifest comes from outside, and must not name files elsewhere
_FREE_SHARE = 1.05  # a disk that is filled to the brim causes trouble for others


class HttpSource:
    """A source (source.py) of what a controller serves under URL/weights/VERSION/NAME.

    url      http://HOST:PORT
    headers  sent with every request, such as that of the token
    folder   where the files are kept while engines read them
    """

    def __init__(self, url: str, headers: Mapping[str, str], folder: Path) -> None:
        self._url, self._headers, self._folder = url.rstrip("/"), headers, folder
        self._pool = urllib3.PoolManager(maxsize=_CONNECTIONS, block=False)
        self._in_use = ExitStack()  # with a shared lock on the version that was fetched last

    def fetch(self, manifest: WeightManifest) -> TensorFiles:
        """Download what is not there already. The files can be read until the next call; see source.py."""
        if strange := [file.name for file in manifest.files if not _NAME.fullmatch(file.name)]:
            raise TransferError(
                f"the manifest of weights {manifest.version} names {strange[0]!r}, which cannot be a file of weights"
            )
        # The digests keep weights of the same number but of another run apart.
        digests = blake3("".join(file.blake3 for file in manifest.files).encode()).hexdigest(8)
        whole = self._folder / f"weights-{manifest.version:06d}-{digests}"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._folder.stat().st_uid != os.getuid():
                raise OSError("it belongs to another user")
            with FileLock(self._folder / ".lock", wait_seconds=inf):
                # Sizes are enough: damage after the download is found by the proof.
                if any(_size(whole / file.name) != file.size for file in manifest.files):
                    shutil.rmtree(whole, ignore_errors=True)
                    part = whole.with_suffix(".part")
                    self._download(manifest, part)
                    part.rename(whole)
                self._in_use.close()
                self._in_use.enter_context(FileLock(whole / ".in-use", shared=True))
                self._remove_unused()
        except OSError as error:
            raise TransferError(
                f"cannot keep weights {manifest.version} in {self._folder}: {error}. Make room there, or let TMPDIR "
                "name another folder"
            ) from error
        return TensorFiles(tuple(whole / file.name for file in manifest.files))

    def close(self) -> None:
        """Remove what no process of this machine reads any more."""
        self._pool.clear()
        self._in_use.close()
        # A process that has the lock fetches a version, and removes the others itself. Without a folder, there is none.
        with suppress(OSError), FileLock(self._folder / ".lock"):
            self._remove_unused()

    def _remove_unused(self) -> None:
        """Remove all versions that no process has in use. The caller has the lock, so none is being fetched."""
        for folder in self._folder.glob("weights-*"):
            with suppress(OSError), FileLock(folder / ".in-use"):
                shutil.rmtree(folder, ignore_errors=True)

    def _download(self, manifest: WeightManifest, part: Path) -> None:
        part.mkdir(exist_ok=True)
        missing = sum(file.size - min(_size(part / file.name), file.size) for file in manifest.files)
        free = shutil.disk_usage(part).free
        if missing * _FREE_SHARE > free:
            raise OSError(f"{missing:,} bytes are missing, and {free:,} are free")
        with ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="weights") as threads:
            # An error ends the iteration, which cancels the downloads that have not begun.
            list(threads.map(partial(self._download_file, manifest.version, part), manifest.files))

    def _download_file(self, version: int, part: Path, file: WeightFile) -> None:
        path = part / file.name
        for _ in range(2):
            self._complete(version, file, path)
            if blake3(max_threads=blake3.AUTO).update_mmap(path).hexdigest() == file.blake3:
                return
            path.unlink()
            log.warning("%s of weights %d is damaged", file.name, version)
        raise TransferError(
            f"{file.name} of weights {version} has another digest than its manifest says, twice. Something between "
            f"here and {self._url} alters it."
        )

    def _complete(self, version: int, file: WeightFile, path: Path) -> None:
        pause_seconds, failed_attempts, before = _MIN_BACKOFF_SECONDS, 0, -1
        while (size := _size(path)) < file.size:
            failed_attempts = failed_attempts + 1 if size == before else 0
            before = size
            if failed_attempts == _MAX_FAILED_ATTEMPTS:
                raise TransferError(f"{file.name} of weights {version} stays at {size:,} of {file.size:,} bytes")
            if failed_attempts:
                time.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, _MAX_BACKOFF_SECONDS)
            try:
                self._request(version, file, path, size)
            except HTTPError as error:
                log.info("%s of weights %d broke off at %d bytes: %s", file.name, version, _size(path), error)
        if size > file.size:
            os.truncate(path, 0)
            raise TransferError(
                f"{file.name} of weights {version} has more than the {file.size:,} bytes it should have"
            )

    def _request(self, version: int, file: WeightFile, path: Path, size: int) -> None:
        """Make one request. Raises HTTPError if it breaks off, and TransferError if there is no such file."""
        url, headers = f"{self._url}/weights/{version}/{file.name}", {**self._headers, "range": f"bytes={size}-"}
        timeout = urllib3.Timeout(connect=_CONNECT_SECONDS, read=_READ_SECONDS)
        with closing(
            self._pool.request(
                "GET", url, headers=headers, preload_content=False, retries=False, redirect=False, timeout=timeout
            )
        ) as reply:
            if reply.status in _RETRYABLE_STATUSES:
                raise HTTPError(f"the answer is {reply.status}")
            if reply.status not in (200, 206):
                raise TransferError(f"weights {version} are gone: {self._url} answers {reply.status} for {file.name}")
            # A server that does not know ranges sends the whole file.
            with path.open("ab" if reply.status == 206 else "wb") as into:
                while chunk := reply.read1(_CHUNK_BYTES):  # what has arrived; `read` would lose it at a break
                    into.write(chunk)


def default_folder(url: str) -> Path:
    """Return a folder that all workers of this machine and user share if they work for the same run."""
    return Path(os.environ.get("TMPDIR", "/tmp")) / f"curate-weights-{os.getuid()}" / blake3(url.encode()).hexdigest(8)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
