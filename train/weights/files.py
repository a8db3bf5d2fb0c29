"""Weights as safetensors files of bounded size, with digests."""

from collections.abc import Callable
from pathlib import Path

from train.errors import TransferError
from train.weights.cpu_batches import copy_to_cpu
from train.weights.manifest import SentTensor, WeightFile, WeightManifest
from train.weights.source import TensorFiles, Weights, with_checksums

FILE_BYTES = 256 * 2**20  # bytes of a file, unless a single tensor has more; twice as many are in memory while writing


def write_files(weights: Weights, write: Callable[[int, bytes], str], file_bytes: int = FILE_BYTES) -> WeightManifest:
    """Write the tensors to files as they come, and return a manifest of the files and tensors, with version 0.

    write  called with the number and the content of each file; returns the name of the file
    """
    from blake3 import blake3
    from safetensors.torch import save

    sent: list[SentTensor] = []
    files = []
    for number, tensors in enumerate(copy_to_cpu(with_checksums(weights, sent), file_bytes)):
        content = save(tensors)
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
