"""The interfaces of weight transports, and the transports within a process and a machine.

The learner has a `WeightPublisher`, each engine a `WeightSource`. Within one process, tensors are copied
(`InProcessTransport`). Between processes, weights are safetensors files of bounded size with digests, in shared memory
(`SharedMemoryTransport`) or over HTTP (http_source.py).
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec.structs import replace

from train.errors import TransferError
from train.weights.manifest import Probe, SentTensor, WeightFile, WeightManifest

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")
Weights = Iterable[tuple[str, "Tensor"]]  # full tensors under their names in the model's files

FILE_BYTES = 256 * 2**20  # maximum size of a file, unless a tensor is larger; writing buffers twice as much


class WeightPublisher(Protocol):
    """The learner's side of a transport. A version becomes visible to sources atomically."""

    def publish(self, weights: Weights, version: int, probe: Probe | None, max_error: float) -> WeightManifest:
        """Publish the tensors, reading each once and in order. Return the manifest for sources.

        Keeps the newest two versions. Raises TransferError if there is no space.
        """

    def close(self) -> None:
        """Remove all versions."""


class WeightSource(Protocol):
    """The engines' side of a transport."""

    def fetch(self, manifest: WeightManifest) -> Weights:
        """Fetch the weights to this machine, and return them for `Engine.load`. The engine may sample meanwhile.

        Raises TransferError if the weights cannot be fetched, for example because a newer version replaced them.
        """

    def close(self) -> None:
        """Remove the fetched weights."""


class InProcessTransport:
    """Publisher and source within one process. Thread-safe.

    Keeps a CPU copy of the newest version, since the learner changes its own tensors.
    """

    def __init__(self) -> None:
        self._newest: tuple[int, list[tuple[str, Tensor]]] = (-1, [])  # replaced atomically, without a lock

    def publish(self, weights: Weights, version: int, probe: Probe | None, max_error: float) -> WeightManifest:
        sent: list[SentTensor] = []
        copies = [(name, tensor.detach().to("cpu", copy=True)) for name, tensor in record_checksums(weights, sent)]
        self._newest = version, copies
        return WeightManifest(version, tensors=tuple(sent), probe=probe, max_error=max_error)

    def fetch(self, manifest: WeightManifest) -> Weights:
        version, tensors = self._newest
        if manifest.version != version:
            raise TransferError(f"weights {manifest.version} were removed: the newest are {version}")
        return tensors

    def close(self) -> None:
        self._newest = -1, []


@dataclass(frozen=True, slots=True)
class TensorFiles:
    """The tensors of safetensors files, readable by each process of an engine."""

    paths: tuple[Path, ...]

    def __iter__(self) -> "Iterator[tuple[str, Tensor]]":
        """Yield the tensors, read lazily. Raises TransferError if a file is missing or damaged."""
        from safetensors import SafetensorError, safe_open

        for path in self.paths:
            try:
                with safe_open(path, framework="pt") as file:
                    for name in file.keys():  # noqa: SIM118 - it is not a mapping
                        yield name, file.get_tensor(name)
            except (OSError, SafetensorError) as error:
                raise TransferError(f"{path}: fetched weights cannot be read: {error}. Restart the worker") from error


class SharedMemoryTransport:
    """Publisher and source of files in shared memory, for processes of one machine and user.

    The files are memfds, which other processes open under /proc. The kernel frees a memfd with its last descriptor,
    even after SIGKILL.

    max_versions: number of versions to keep; processes may still read the one before the newest
    """

    def __init__(self, file_bytes: int = FILE_BYTES, *, max_versions: int = 2) -> None:
        self._file_bytes, self._max_versions = file_bytes, max_versions
        self._lock = threading.Lock()
        self._versions: dict[int, list[int]] = {}  # by version, the descriptors of its files
        self._fetched: list[int] = []  # descriptors of the latest fetch

    def publish(self, weights: Weights, version: int, probe: Probe | None, max_error: float) -> WeightManifest:
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
            while len(self._versions) > self._max_versions:
                _close(self._versions.pop(next(iter(self._versions))))
        folder = f"/proc/{os.getpid()}/fd"
        return replace(manifest, version=version, folder=folder, probe=probe, max_error=max_error)

    def fetch(self, manifest: WeightManifest) -> TensorFiles:
        """Open the files, without a copy. The files stay readable until the next call; see `WeightSource`."""
        _close(self._fetched)
        self._fetched = []
        files = locate_files(manifest, Path(manifest.folder))
        for number, path in enumerate(files.paths):
            try:
                self._fetched.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                label = os.readlink(f"/proc/self/fd/{self._fetched[-1]}")
            except OSError as error:
                raise TransferError(f"weights {manifest.version} were removed: {error}") from error
            if _label(manifest.version, number) not in label:  # the descriptor was reused for another file
                raise TransferError(f"weights {manifest.version} were removed: {path} is now the file {label}")
        return TensorFiles(tuple(Path(f"/proc/{os.getpid()}/fd/{descriptor}") for descriptor in self._fetched))

    def close(self) -> None:
        """Close the files; the kernel frees them once no engine reads them."""
        with self._lock:
            _close(chain(*self._versions.values(), self._fetched))
            self._versions, self._fetched = {}, []


def write_files(weights: Weights, write: Callable[[int, bytes], str], file_bytes: int = FILE_BYTES) -> WeightManifest:
    """Stream the tensors to files, and return their manifest, with version 0.

    write: writes a file, given its number and content, and returns its name
    """
    from blake3 import blake3
    from safetensors.torch import save

    sent: list[SentTensor] = []
    files = []
    for number, content in enumerate(map(save, copy_to_cpu(record_checksums(weights, sent), file_bytes))):
        digest = blake3(content, max_threads=blake3.AUTO).hexdigest()
        files.append(WeightFile(write(number, content), len(content), digest))
    return WeightManifest(0, files=tuple(files), tensors=tuple(sent))


def locate_files(manifest: WeightManifest, folder: Path) -> TensorFiles:
    """Return the files of a manifest. Raises TransferError if one is missing or has another size."""
    paths = tuple(folder / file.name for file in manifest.files)
    for path, file in zip(paths, manifest.files, strict=True):
        try:
            size = path.stat().st_size
        except OSError as error:
            raise TransferError(f"weights {manifest.version} were removed: {error}") from error
        if size != file.size:
            raise TransferError(f"weights {manifest.version}: {path} has {size} bytes, not {file.size}")
    return TensorFiles(paths)


def record_checksums(weights: Weights, sent: list[SentTensor]) -> "Iterator[tuple[str, Tensor]]":
    """Yield the tensors, and append the description and checksum of each to `sent`."""
    from train.weights.checksums import compute_checksum

    for name, tensor in weights:
        dtype = str(tensor.dtype).removeprefix("torch.")
        sent.append(SentTensor(name, dtype, tuple(tensor.shape), compute_checksum(tensor)))
        yield name, tensor


def copy_to_cpu(weights: Weights, max_bytes: int) -> "Iterator[dict[str, Tensor]]":
    """Yield CPU copies of the tensors in groups of at most `max_bytes`, or one larger tensor."""
    # Copies, because tensors of a model may share memory, which safetensors does not allow.
    copies = ((name, tensor.detach().to("cpu", copy=True).contiguous()) for name, tensor in weights)
    return map(dict, split_by_bytes(copies, lambda copy: copy[1].nbytes, max_bytes))


def split_by_bytes(items: Iterable[T], n_bytes: Callable[[T], int], max_bytes: int) -> Iterator[list[T]]:
    """Yield successive items in groups of at most `max_bytes`, or one larger item."""
    group: list[T] = []
    size = 0
    for item in items:
        if group and size + n_bytes(item) > max_bytes:
            yield group
            group, size = [], 0
        group.append(item)
        size += n_bytes(item)
    if group:
        yield group


def _label(version: int, number: int) -> str:
    return f"curate-weights-{version}-{number}-"


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        with suppress(OSError):
            os.close(descriptor)
