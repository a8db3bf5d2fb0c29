"""Weights as files in a folder: on a disk of this machine, or on one that several machines share."""

import re
import shutil
from pathlib import Path

from msgspec.structs import replace

from train.errors import TransferError
from train.weights.manifest import Probe, WeightManifest
from train.weights.source import FILE_BYTES, TensorFiles, Weights, locate_files, write_files

_RETAINED_VERSIONS = 2  # versions; a reader of the one before the newest may be in the midst of it


class FolderTransport:
    """Publisher of files in a folder, and their source for processes that see the folder under the same path."""

    def __init__(self, folder: Path, file_bytes: int = FILE_BYTES) -> None:
        self._folder, self._file_bytes = folder.resolve(), file_bytes

    def publish(self, weights: Weights, version: int, probe: Probe | None, max_error: float) -> WeightManifest:
        """Write the tensors to a folder of their own, which gets its name when it is whole; see source.py."""
        final = self._folder / version_folder_name(version)
        part = final.with_suffix(".part")

        def write(number: int, content: bytes) -> str:
            name = f"weights-{number:05d}.safetensors"
            (part / name).write_bytes(content)
            return name

        try:
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            manifest = write_files(weights, write, self._file_bytes)
            shutil.rmtree(final, ignore_errors=True)  # from an attempt that was resumed at an earlier step
            part.rename(final)
        except BaseException as error:
            shutil.rmtree(part, ignore_errors=True)
            if isinstance(error, OSError):
                raise TransferError(f"cannot write weights {version} to {part}: {error}. Make room there.") from error
            raise
        prune_versions(self._folder, _RETAINED_VERSIONS, version)
        return replace(manifest, version=version, folder=str(final), probe=probe, max_error=max_error)

    def fetch(self, manifest: WeightManifest) -> TensorFiles:
        """Return the files, which need not be copied; see source.py."""
        return locate_files(manifest, Path(manifest.folder))

    def close(self) -> None:
        """Remove all versions."""
        for folder in _versions(self._folder).values():
            shutil.rmtree(folder, ignore_errors=True)


def version_folder_name(version: int) -> str:
    """Return the name of the folder of a version."""
    return f"weights-{version:06d}"


def prune_versions(folder: Path, n: int, newest: int) -> None:
    """Remove all versions but this newest one and the n - 1 before it."""
    versions = _versions(folder)
    kept = sorted(version for version in versions if version <= newest)[-n:]
    for version, of_version in versions.items():
        if version not in kept:
            shutil.rmtree(of_version, ignore_errors=True)


def _versions(folder: Path) -> dict[int, Path]:
    if not folder.is_dir():
        return {}
    names = ((re.fullmatch(r"weights-(\d{6,})", path.name), path) for path in folder.iterdir())
    return {int(name[1]): path for name, path in names if name}
