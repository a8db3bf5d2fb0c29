"""Weights in memory that other processes of this machine can read by a path, although no folder lists it.

The files exist as long as a process has them open: nothing is left of them, however the processes end.
"""

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from train.errors import TransferError
from train.weights.manifest import Probe, WeightManifest
from train.weights.source import FILE_BYTES, TensorFiles, Weights, locate_files, write_files

_RETAINED_VERSIONS = 2  # versions; a reader of the one before the newest may be in the midst of it


class SharedMemoryTransport:
    """Publisher of files in memory, and their source for other processes of this machine and user.

    kept: number of versions that are kept, the newest ones
    """

    def __init__(self, file_bytes: int = FILE_BYTES, *, kept: int = _RETAINED_VERSIONS) -> None:
        self._file_bytes, self._kept = file_bytes, kept
        self._lock = threading.Lock()
        self._versions: dict[int, list[int]] = {}  # the descriptors of the files of each version
        self._opened: list[int] = []  # descriptors of what was fetched last

    def publish(self, weights: Weights, version: int, probe: Probe | None, max_error: float) -> WeightManifest:
        """Write the tensors to memory; see source.py."""
        descriptors: list[int] = []

        def write(number: int, content: bytes) -> str:
            descriptors.append(os.memfd_create(_label(version, number)))
            with open(descriptors[-1], "wb", closefd=False) as file:
                file.write(content)
            return str(descriptors[-1])

        try:
            manifest = write_files(weights, write, self._file_bytes)
        except BaseException as error:
            _close(descriptors)
            if isinstance(error, OSError):
                raise TransferError(f"cannot write weights {version} to memory: {error}. Free some memory.") from error
            raise
        with self._lock:
            _close(self._versions.pop(version, ()))
            self._versions[version] = descriptors
            while len(self._versions) > self._kept:
                _close(self._versions.pop(next(iter(self._versions))))
        folder = f"/proc/{os.getpid()}/fd"
        return replace(manifest, version=version, folder=folder, probe=probe, max_error=max_error)

    def fetch(self, manifest: WeightManifest) -> TensorFiles:
        """Return the files, which need not be copied. They can be read until the next call; see source.py."""
        _close(self._opened)
        self._opened = []
        files = locate_files(manifest, Path(manifest.folder))
        for number, path in enumerate(files.paths):
            try:
                self._opened.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                label = os.readlink(f"/proc/self/fd/{self._opened[-1]}")
            except OSError as error:
                raise TransferError(f"weights {manifest.version} are gone: {error}") from error
            if _label(manifest.version, number) not in label:  # the path belongs to another file by now
                raise TransferError(f"weights {manifest.version} are gone: {path} is {label} now")
        return TensorFiles(tuple(Path(f"/proc/{os.getpid()}/fd/{descriptor}") for descriptor in self._opened))

    def close(self) -> None:
        """Give the memory back once no engine reads it any more."""
        with self._lock:
            for descriptors in (*self._versions.values(), self._opened):
                _close(descriptors)
            self._versions, self._opened = {}, []


def _label(version: int, number: int) -> str:
    return f"curate-weights-{version}-{number}-"


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        with suppress(OSError):
            os.close(descriptor)
