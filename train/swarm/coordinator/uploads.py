"""The bodies of requests, bounded in size and time, and the files of leases that have no verdict yet."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from starlette.requests import Request

from sandbox.service import request_body
from train.errors import RunError
from train.swarm.coordinator.refusals import RetryLater

_MIN_SECONDS = 15.0
_SLOWEST = 50_000  # bytes per second of a body, on average
MAX_UPLOAD_SECONDS = 900.0
_MAX_CONCURRENT = 512 * 2**20  # bytes of all bodies that arrive or wait to be written


class UploadBudget:
    """Memory for bodies. What does not fit has to come later."""

    def __init__(self, n_bytes: int = _MAX_CONCURRENT) -> None:
        self._free = n_bytes

    @contextmanager
    def reserve(self, max_bytes: int) -> Iterator[None]:
        """Set memory aside. Raises RetryLater if there is none."""
        if max_bytes > self._free:
            raise RetryLater("too many uploads at once", 5)
        self._free -= max_bytes
        try:
            yield
        finally:
            self._free += max_bytes


async def read_body(request: Request, max_bytes: int, *, keep: bool = True) -> bytes:
    """Return the body of a request, which has time in proportion to its size; see the function of the same name."""
    seconds = min(_MIN_SECONDS + max_bytes / _SLOWEST, MAX_UPLOAD_SECONDS)
    return await request_body.read_body(request, max_bytes, seconds, keep=keep)


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
