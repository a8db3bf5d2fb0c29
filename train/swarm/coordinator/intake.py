"""The intake of a coordinator: refusals, bodies bounded in size and time, and storage of completions for verifiers.

train/swarm/client.py handles these statuses.
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
from train.swarm.lease_file import is_refusal, join_lease_file, max_file_bytes

_MIN_SECONDS = 15.0
_SLOWEST = 50_000  # minimum average rate of a body, in bytes per second
MAX_UPLOAD_SECONDS = 900.0
_MAX_CONCURRENT = 512 * 2**20  # bytes of all bodies that arrive or wait to be written


class NotJoined(ServiceError):
    """The node must join, or join again."""

    status = HTTPStatus.CONFLICT


class Forbidden(ServiceError):
    """The node may not take part, permanently."""

    status = HTTPStatus.FORBIDDEN


class NotFound(ServiceError):
    status = HTTPStatus.NOT_FOUND


class RetryLater(ServiceError):
    """The node must retry later: too many calls, or too early."""

    status = HTTPStatus.TOO_MANY_REQUESTS

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message, retry_after=retry_after)


class UploadBudget:
    """Memory for bodies; what does not fit must be sent later."""

    def __init__(self) -> None:
        self._free = _MAX_CONCURRENT

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
    seconds = min(_MIN_SECONDS + max_bytes / _SLOWEST, MAX_UPLOAD_SECONDS)
    return await request_body.read_body(request, max_bytes, seconds, keep=keep)


class BrokenAnswers(Exception):
    """Completions that reject their lease, whatever else arrives."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


class _Location(NamedTuple):
    """Digest and location of a completion in the file of its lease."""

    digest: bytes
    start: int
    end: int


class AnswerStore:
    """The completions of leases, one file for each lease. The first completion of a seed stays.

    Files of an earlier coordinator are removed, since their leases are unknown. One thread at a time may add to a
    lease.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._places: dict[int, dict[int, _Location]] = {}  # by lease and completion number
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            path.unlink()

    def add(self, lease: Lease, answers: Sequence[SampleResult]) -> list[ResultStatus]:
        """Store completions, and return the status of each. A single write stores all of them or none.

        Raises BrokenAnswers, and RunError if the disk is full.
        """
        places = self._places.setdefault(lease.group, {})
        end = max((place.end for place in places.values()), default=0)
        statuses, found, content = [], dict(places), bytearray()
        for answer in answers:
            statuses.append(_status(answer, lease, found))
            for each in _expanded(answer, lease):
                packed = msgspec.msgpack.encode(each)
                digest = blake3(packed).digest()
                known = found.setdefault(each.number, _Location(digest, end, end + len(packed)))
                if known.digest != digest:
                    raise BrokenAnswers("different")
                if known.start == end:
                    content += packed
                    end += len(packed)
        if end > max_file_bytes(lease):
            raise BrokenAnswers("size")
        if content:
            self._write(lease.group, content, end - len(content))
        places.update(found)
        return statuses

    def is_complete(self, lease: Lease) -> bool:
        """Return whether each seed has a completion."""
        return len(self._places.get(lease.group, {})) == len(lease.seeds)

    def read(self, lease: int) -> bytes | None:
        """Return the completions of a lease as a file for verifiers; None if they are gone."""
        places = self._places.get(lease)
        try:
            content = self._path(lease).read_bytes()
        except FileNotFoundError:
            return None
        return join_lease_file([content[at.start : at.end] for _, at in sorted(places.items())]) if places else None

    def remove(self, lease: int) -> None:
        """Remove everything stored for a lease."""
        self._places.pop(lease, None)
        self._path(lease).unlink(missing_ok=True)

    def _write(self, lease: int, content: bytearray, start: int) -> None:
        try:
            descriptor = os.open(self._path(lease), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.truncate(start)  # drop the rest of a failed write
                file.seek(start)
                file.write(content)
        except OSError as error:
            raise RunError(f"cannot keep answers in {self._folder}: {error}. Make room there.") from error

    def _path(self, lease: int) -> Path:
        return self._folder / str(lease)


def _status(answer: SampleResult, lease: Lease, found: dict[int, _Location]) -> ResultStatus:
    if answer.attempt != lease.attempt or not 0 <= answer.number < len(lease.seeds):
        raise BrokenAnswers("file")
    if answer.finish_reason == "refused" and not is_refusal(answer):
        raise BrokenAnswers("length")
    return "again" if answer.number in found else "taken"


def _expanded(answer: SampleResult, lease: Lease) -> Iterator[SampleResult]:
    """Yield the results that one represents: a refusal of the prompt covers the whole lease."""
    if answer.finish_reason != "refused":
        yield answer
    else:
        yield from (replace(answer, number=number) for number in range(len(lease.seeds)))
