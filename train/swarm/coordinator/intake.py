"""What a coordinator lets in: refusals, bodies bounded in size and time, answers for a verifier.

train/swarm/client.py says what a node makes of each status.
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
_SLOWEST = 50_000  # bytes per second of a body, on average
MAX_UPLOAD_SECONDS = 900.0
_MAX_CONCURRENT = 512 * 2**20  # bytes of all bodies that arrive or wait to be written


class NotJoined(ServiceError):
    """The node has to join, or to join again."""

    status = HTTPStatus.CONFLICT


class Forbidden(ServiceError):
    """The node may not take part, now and later."""

    status = HTTPStatus.FORBIDDEN


class NotFound(ServiceError):
    status = HTTPStatus.NOT_FOUND


class RetryLater(ServiceError):
    """The node asks too much or too early."""

    status = HTTPStatus.TOO_MANY_REQUESTS

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message, retry_after=retry_after)


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


class BrokenAnswers(Exception):
    """Answers that reject their lease, whatever else comes."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


class _Place(NamedTuple):
    """Where an answer lies in the file of its lease."""

    digest: bytes
    start: int
    end: int


class AnswerStore:
    """The answers to leases, one file for each lease. The first answer to a seed stays.

    Files of an earlier coordinator are removed: their leases are unknown now. One thread at a time adds answers to a
    lease.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._places: dict[int, dict[int, _Place]] = {}  # by the numbers of leases and answers
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            path.unlink()

    def add(self, lease: Lease, answers: Sequence[SampleResult]) -> list[ResultStatus]:
        """Keep answers, and return what became of each. All of them are kept if one write to the disk succeeds.

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
                known = found.setdefault(each.number, _Place(digest, end, end + len(packed)))
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
        """Return whether there is an answer to each seed."""
        return len(self._places.get(lease.group, {})) == len(lease.seeds)

    def read(self, lease: int) -> bytes | None:
        """Return the answers to a lease as a verifier reads them, or None if they are gone."""
        places = self._places.get(lease)
        try:
            content = self._path(lease).read_bytes()
        except FileNotFoundError:
            return None
        return join_lease_file([content[at.start : at.end] for _, at in sorted(places.items())]) if places else None

    def remove(self, lease: int) -> None:
        """Remove what came for a lease."""
        self._places.pop(lease, None)
        self._path(lease).unlink(missing_ok=True)

    def _write(self, lease: int, content: bytearray, start: int) -> None:
        try:
            descriptor = os.open(self._path(lease), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.truncate(start)  # more may be there of a write that failed
                file.seek(start)
                file.write(content)
        except OSError as error:
            raise RunError(f"cannot keep answers in {self._folder}: {error}. Make room there.") from error

    def _path(self, lease: int) -> Path:
        return self._folder / str(lease)


def _status(answer: SampleResult, lease: Lease, found: dict[int, _Place]) -> ResultStatus:
    if answer.attempt != lease.attempt or not 0 <= answer.number < len(lease.seeds):
        raise BrokenAnswers("file")
    if answer.finish_reason == "refused" and not is_refusal(answer):
        raise BrokenAnswers("length")
    return "again" if answer.number in found else "taken"


def _expanded(answer: SampleResult, lease: Lease) -> Iterator[SampleResult]:
    """Yield the answers that one stands for: a refusal of the prompt speaks for the whole lease."""
    if answer.finish_reason != "refused":
        yield answer
    else:
        yield from (replace(answer, number=number) for number in range(len(lease.seeds)))
