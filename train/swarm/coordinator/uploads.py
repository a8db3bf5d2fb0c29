"""The files of answers that have no verdict yet, on the disk. Each is written once, and removed with its lease."""

import os
from pathlib import Path

from train.errors import RunError


class UploadStore:
    """The files in a folder. Those of an earlier coordinator are removed: their leases are unknown now."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            path.unlink()

    def write(self, lease_id: bytes, digest: bytes, content: bytes) -> None:
        """Keep a file until it is known whether it counts. Raises RunError if the disk is full."""
        path = self._path(lease_id, digest)
        part = path.with_suffix(f".{os.urandom(4).hex()}")
        try:
            part.write_bytes(content)
            part.replace(path)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise RunError(f"cannot keep answers in {self._folder}: {error}. Make room there.") from error

    def read(self, lease_id: bytes, digest: bytes) -> bytes | None:
        """Return a file, or None if it is gone."""
        try:
            return self._path(lease_id, digest).read_bytes()
        except FileNotFoundError:
            return None

    def remove(self, lease_id: bytes) -> None:
        """Remove what came for a lease."""
        for path in self._folder.glob(f"{lease_id.hex()}-*"):
            path.unlink(missing_ok=True)

    def _path(self, lease_id: bytes, digest: bytes) -> Path:
        return self._folder / f"{lease_id.hex()}-{digest.hex()}"
