"""The intake of a coordinator: refusals, bodies bounded in size and time, and storage of results for verifiers.

train/swarm/client.py handles the statuses of refusals.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

import msgspec
from blake3 import blake3
from msgspec.structs import replace
from starlette.requests import Request

from sandbox.service import request_body
from sandbox.service.service_errors import ServiceError
from train.asynchronous.messages import Lease, Reason, ResultStatus, SampleResult
from train.errors import RunError
from train.swarm.lease_file import compute_max_file_bytes, is_refusal, join_lease_file

_MIN_SECONDS = 15.0
_MIN_UPLOAD_RATE = 50_000  # bytes per second, on average
MAX_UPLOAD_SECONDS = 900.0
_MAX_RESERVED_BYTES = 512 * 2**20  # of all bodies that arrive or wait to be written


class NotJoined(ServiceError):
    status = HTTPStatus.CONFLICT


class Forbidden(ServiceError):
    status = HTTPStatus.FORBIDDEN


class NotFound(ServiceError):
    status = HTTPStatus.NOT_FOUND


class RetryLater(ServiceError):
    """A refusal of too many or too early calls."""

    status = HTTPStatus.TOO_MANY_REQUESTS

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message, retry_after=retry_after)


class UploadBudget:
    """A limit on the memory for bodies."""

    def __init__(self) -> None:
        self._free = _MAX_RESERVED_BYTES

    @contextmanager
    def reserve(self, max_bytes: int) -> Iterator[None]:
        """Reserve memory. Raises RetryLater if there is not enough."""
        if max_bytes > self._free:
            raise RetryLater("too many uploads at once", 5)
        self._free -= max_bytes
        try:
            yield
        finally:
            self._free += max_bytes


async def read_body(request: Request, max_bytes: int, *, keep: bool = True) -> bytes:
    """Read the body of a request within a time proportional to `max_bytes`; see request_body.read_body."""
    seconds = min(_MIN_SECONDS + max_bytes / _MIN_UPLOAD_RATE, MAX_UPLOAD_SECONDS)
    return await request_body.read_body(request, max_bytes, seconds, keep=keep)


class InvalidResults(Exception):
    """Invalid results, which reject their lease."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


class _Location(NamedTuple):
    """The digest of a result, and its bytes in the file of its lease."""

    digest: bytes
    start: int
    end: int


class ResultStore:
    """The results of leases, one file for each lease. One thread at a time may add to a lease.

    Removes files of an earlier incarnation, since their leases are unknown.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._locations: dict[int, dict[int, _Location]] = {}  # by lease and number of the result
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            path.unlink()

    def add(self, lease: Lease, results: Sequence[SampleResult]) -> list[ResultStatus]:
        """Store results atomically, and return the status of each. The first result of each seed counts.

        Raises InvalidResults, and RunError if the disk is full.
        """
        stored = self._locations.setdefault(lease.group, {})
        end = max((location.end for location in stored.values()), default=0)
        statuses, updated, content = [], dict(stored), bytearray()
        for result in results:
            statuses.append(_check_result(result, lease, updated))
            for each in _expand_refusal(result, lease):
                packed = msgspec.msgpack.encode(each)
                digest = blake3(packed).digest()
                location = updated.setdefault(each.number, _Location(digest, end, end + len(packed)))
                if location.digest != digest:
                    raise InvalidResults("different")
                if location.start == end:
                    content += packed
                    end += len(packed)
        if end > compute_max_file_bytes(lease):
            raise InvalidResults("size")
        if content:
            self._write(lease.group, content, end - len(content))
        stored.update(updated)
        return statuses

    def is_complete(self, lease: Lease) -> bool:
        return len(self._locations.get(lease.group, {})) == len(lease.seeds)

    def read(self, lease: int) -> bytes | None:
        """Return the results of a lease as a file for verifiers; None if they were removed."""
        locations = self._locations.get(lease)
        try:
            content = self._locate_file(lease).read_bytes()
        except FileNotFoundError:
            return None
        if not locations:
            return None
        return join_lease_file([content[location.start : location.end] for _, location in sorted(locations.items())])

    def remove(self, lease: int) -> None:
        self._locations.pop(lease, None)
        self._locate_file(lease).unlink(missing_ok=True)

    def _write(self, lease: int, content: bytearray, start: int) -> None:
        try:
            descriptor = os.open(self._locate_file(lease), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.truncate(start)  # drop the rest of a failed write
                file.seek(start)
                file.write(content)
        except OSError as error:
            raise RunError(f"cannot store completions in {self._folder}: {error}. Free disk space.") from error

    def _locate_file(self, lease: int) -> Path:
        return self._folder / str(lease)


def _check_result(result: SampleResult, lease: Lease, stored: dict[int, _Location]) -> ResultStatus:
    if result.attempt != lease.attempt or not 0 <= result.number < len(lease.seeds):
        raise InvalidResults("file")
    if result.finish_reason == "refused" and not is_refusal(result):
        raise InvalidResults("length")
    return "again" if result.number in stored else "taken"


def _expand_refusal(result: SampleResult, lease: Lease) -> Iterator[SampleResult]:
    """Yield the result; a refusal covers the whole lease, so yield one refusal for each seed."""
    if result.finish_reason != "refused":
        yield result
    else:
        yield from (replace(result, number=number) for number in range(len(lease.seeds)))
