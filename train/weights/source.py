"""Both ends of every way in which new weights reach engines, and what those ways share.

The learner has a `WeightPublisher`, each engine a `WeightSource`. Within one process the tensors are copied
(`InProcessTransport`). Between processes they travel as safetensors files of bounded size, with digests: in memory
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
Weights = Iterable[tuple[str, "Tensor"]]  # whole tensors under the names that the model's files have

FILE_BYTES = 256 * 2**20  # bytes of a file, unless a single tensor has more; twice as many are in memory while writing


class WeightPublisher(Protocol):
    """Makes versions of the weights available, on the learner's side. Sources see a version whole or not at all."""

    def publish(self, weights: Weights, version: int, probe: Probe | None, max_error: float) -> WeightManifest:
        """Read the tensors once, one after another, and return what sources need in order to fetch them.

        The newest two versions are kept. Raises TransferError if there is no room for them.
        """

    def close(self) -> None:
        """Remove all versions."""


class WeightSource(Protocol):
    """Fetches versions of the weights, on the engines' side."""

    def fetch(self, manifest: WeightManifest) -> Weights:
        """Bring the weights to this machine, and return them as `Engine.load` takes them. The engine may sample on.

        Raises TransferError if they cannot be fetched, for example because newer ones have replaced them.
        """

    def close(self) -> None:
        """Remove what was fetched."""


class InProcessTransport:
    """Publisher and source at once. It keeps a copy of the newest version, since the learner changes its own tensors.

    Any thread may fetch while another one publishes.
    """

    def __init__(self) -> None:
        self._newest: tuple[int, list[tuple[str, Tensor]]] = (-1, [])  # replaced at once, so that no lock is needed

    def publish(self, weights: Weights, version: int, probe: Probe | None, max_error: float) -> WeightManifest:
        """Copy the tensors to the memory of the CPU; see `WeightPublisher`."""
        sent: list[SentTensor] = []
        copies = [(name, tensor.detach().to("cpu", copy=True)) for name, tensor in with_checksums(weights, sent)]
        self._newest = version, copies
        return WeightManifest(version, tensors=tuple(sent), probe=probe, max_error=max_error)

    def fetch(self, manifest: WeightManifest) -> Weights:
        """Return the tensors; see `WeightSource`."""
        version, tensors = self._newest
        if manifest.version != version:
            raise TransferError(f"weights {manifest.version} are gone: {version} have replaced them")
        return tensors

    def close(self) -> None:
        """Forget the tensors."""
        self._newest = -1, []


@dataclass(frozen=True, slots=True)
class TensorFiles:
    """The tensors of safetensors files. Each of an engine's processes can read the files by itself."""

    paths: tuple[Path, ...]

    def __iter__(self) -> "Iterator[tuple[str, Tensor]]":
        """Read the tensors one after another. Raises TransferError if a file is missing or damaged."""
        from safetensors import SafetensorError, safe_open

        for path in self.paths:
            try:
                with safe_open(path, framework="pt") as file:
                    for name in file.keys():  # noqa: SIM118 - it is not a mapping
                        yield name, file.get_tensor(name)
            except (OSError, SafetensorError) as error:
                raise TransferError(
                    f"{path}: weights that were fetched cannot be read: {error}. Start the worker again"
                ) from error


class SharedMemoryTransport:
    """Publisher of files in memory, and their source for other processes of this machine and user.

    The files are anonymous (memfd); other processes open them by a path in /proc. They exist as long as a process has
    them open: nothing is left of them, however the processes end.

    kept: number of versions that are kept; a reader may be in the midst of the one before the newest
    """

    def __init__(self, file_bytes: int = FILE_BYTES, *, kept: int = 2) -> None:
        self._file_bytes, self._kept = file_bytes, kept
        self._lock = threading.Lock()
        self._versions: dict[int, list[int]] = {}  # the descriptors of the files of each version
        self._opened: list[int] = []  # descriptors of what was fetched last

    def publish(self, weights: Weights, version: int, probe: Probe | None, max_error: float) -> WeightManifest:
        """Write the tensors to memory; see `WeightPublisher`."""
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
        """Return the files, which need not be copied. They can be read until the next call; see `WeightSource`."""
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
            _close(chain(*self._versions.values(), self._opened))
            self._versions, self._opened = {}, []


def write_files(weights: Weights, write: Callable[[int, bytes], str], file_bytes: int = FILE_BYTES) -> WeightManifest:
    """Write the tensors to files as they come, and return a manifest of the files and tensors, with version 0.

    write  called with the number and the content of each file; returns the name of the file
    """
    from blake3 import blake3
    from safetensors.torch import save

    sent: list[SentTensor] = []
    files = []
    for number, content in enumerate(map(save, copy_to_cpu(with_checksums(weights, sent), file_bytes))):
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
            raise TransferError(f"weights {manifest.version} are gone: {error}") from error
        if size != file.size:
            raise TransferError(f"weights {manifest.version}: {path} has {size} bytes, not {file.size}")
    return TensorFiles(paths)


def with_checksums(weights: Weights, sent: list[SentTensor]) -> "Iterator[tuple[str, Tensor]]":
    """Pass tensors on, and append the description and checksum of each to `sent`."""
    from train.weights.checksums import checksum

    for name, tensor in weights:
        sent.append(SentTensor(name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), checksum(tensor)))
        yield name, tensor


def copy_to_cpu(weights: Weights, max_bytes: int) -> "Iterator[dict[str, Tensor]]":
    """Yield copies of the tensors on the CPU, as many at once as fit into a file. A single one may be larger."""
    # Tensors of a model may share their memory, which the format does not allow.
    copies = ((name, tensor.detach().to("cpu", copy=True).contiguous()) for name, tensor in weights)
    return map(dict, split_by_bytes(copies, lambda copy: copy[1].nbytes, max_bytes))


def split_by_bytes(items: Iterable[T], n_bytes: Callable[[T], int], max_bytes: int) -> Iterator[list[T]]:
    """Yield successive items in groups of at most so many bytes; a single item may have more."""
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
