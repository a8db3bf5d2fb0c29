"""Fetch the shards of a version to its files in several threads, each shard from the relay that should have sent it
first.

A shard that is late is asked for a second time, from another relay, when no others wait; the first that is right wins.
"""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from os import SEEK_END
from pathlib import Path

from train.errors import TransferError
from train.swarm.broadcast.manifest import WeightShard, digest
from train.swarm.broadcast.relay_selector import RelaySelector, Transfer
from train.swarm.broadcast.request import NotAvailable, RelayBusy, RelayError, ResponseTooLarge

log = logging.getLogger(__name__)

_LOOKED_AT = 64  # waiting shards for which a relay is looked for
_POLL_SECONDS = 0.05
_MIN_BACKOFF_SECONDS, _BACKOFF_FACTOR = 0.02, 1.5
_MAX_ABSENT_SECONDS = 0.5  # before a relay is asked again for a shard that is not there yet
_MAX_FAILING_SECONDS = 2.0  # before a relay that sends no shard is asked for any
_JOIN_SECONDS = 2.0
_MAX_WAIT_SECONDS = 60.0  # a condition cannot wait for an infinite time
_WORTH_IT = 0.8  # a second relay is asked if it should need at most this share of what the first one still does

FetchShard = Callable[[Transfer, WeightShard], bytes]


@dataclass(slots=True)
class TransferDeadline:
    """The end of the time for a transfer: at a time, or once nothing has arrived for so long.

    until          time of the monotonic clock
    stall_seconds  longest time without progress
    """

    until: float = inf
    stall_seconds: float = inf
    progress_at: float = field(default_factory=time.monotonic)

    @classmethod
    def after(cls, seconds: float, stall_seconds: float = inf) -> "TransferDeadline":
        """Return the deadline of a transfer that begins now."""
        return cls(time.monotonic() + seconds, stall_seconds)

    def record_progress(self) -> None:
        """Note that something has arrived that is right."""
        self.progress_at = time.monotonic()

    def remaining(self) -> float:
        """Return the seconds until it is over if nothing arrives; not below 0."""
        return max(0.0, min(self.until, self.progress_at + self.stall_seconds) - time.monotonic())


@dataclass(slots=True)
class _Backoff:
    """Pauses that grow, of a relay that did not send what it was asked for."""

    times: int = 0
    until: float = 0.0

    def extend(self, max_seconds: float) -> None:
        """Begin the next pause. Failures at the same time count once."""
        now = time.monotonic()
        if self.until <= now:
            self.until = now + min(_MIN_BACKOFF_SECONDS * _BACKOFF_FACTOR**self.times, max_seconds)
            self.times = min(self.times + 1, 20)


class ShardFiles:
    """The files that shards belong to. Several threads may write to them.

    A file that lacks shards has a hidden name. Shards that an earlier process left count if their digests are right.

    folder  has no other files of these names

    Raises OSError if the files cannot be made.
    """

    def __init__(self, folder: Path, shards: Sequence[WeightShard]) -> None:
        self._folder, self.shards, self._lock = folder, shards, threading.Lock()
        self._missing: dict[str, dict[int, WeightShard]] = {}
        for number, shard in enumerate(shards):
            self._missing.setdefault(shard.file, {})[number] = shard
        for name in self._missing:
            self._open(name)

    @property
    def missing(self) -> list[int]:
        """The numbers of the shards that are not there."""
        with self._lock:
            return [number for missing in self._missing.values() for number in missing]

    def write(self, number: int, content: bytes) -> None:
        """Write a shard, whose digest was compared. Raises OSError if the disk is full."""
        shard = self.shards[number]
        if number not in self._missing[shard.file]:
            return
        with self._hidden(shard.file).open("r+b") as file:
            file.seek(shard.offset)
            file.write(content)
        with self._lock:
            if self._missing[shard.file].pop(number, None) is not None:
                self._finish(shard.file)

    def find(self, name: str, start: int, stop: int) -> Path | None:
        """Return where the bytes [start, stop) of a file that lacks shards are; None if they are not all there."""
        with self._lock:
            missing = self._missing.get(name)
            if not missing or any(
                shard.offset < stop and start < shard.offset + shard.length for shard in missing.values()
            ):
                return None
            return self._hidden(name)

    def _open(self, name: str) -> None:
        """Make a file of the right size, and find the shards that are there."""
        missing = self._missing[name]
        if (self._folder / name).exists():
            (self._folder / name).replace(self._hidden(name))
        with self._hidden(name).open("a+b") as file:
            is_new = file.seek(0, SEEK_END) == 0
            file.truncate(sum(shard.length for shard in missing.values()))
            for number, shard in () if is_new else tuple(missing.items()):
                file.seek(shard.offset)
                if digest(file.read(shard.length)) == shard.digest:
                    del missing[number]
        self._finish(name)

    def _finish(self, name: str) -> None:
        """Give a file its name if it is complete."""
        if not self._missing[name]:
            self._hidden(name).replace(self._folder / name)

    def _hidden(self, name: str) -> Path:
        return self._folder / f".{name}"


class ShardDownload:
    """Shards that are being fetched.

    name       of what they belong to, for messages
    files      get them; the first that are missing are asked for first
    deadline   when they have to be there
    fetch_one  sends one request
    """

    def __init__(
        self, relays: RelaySelector, name: str, files: ShardFiles, deadline: TransferDeadline, fetch_one: FetchShard
    ) -> None:
        self._relays, self._name, self._files, self._deadline = relays, name, files, deadline
        self._shards, self._fetch_one = files.shards, fetch_one
        self._waiting = dict.fromkeys(files.missing)
        self._missing = set(self._waiting)
        self._unkept = set(self._waiting)
        self._running: dict[int, list[Transfer]] = defaultdict(list)
        self._absent: dict[tuple[int, str], _Backoff] = defaultdict(_Backoff)
        self._failing: dict[str, _Backoff] = defaultdict(_Backoff)
        self._behind: set[str] = set()  # relays that lacked the last shard they were asked for: one question at a time
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._is_over = False
        self._reasons: dict[str, str] = {}
        self._lies: dict[str, str] = {}

    def fetch(self, max_concurrent: int) -> None:
        """Fetch them all. Raises TransferError if they are not there in time, and OSError if they cannot be written."""
        threads = [
            threading.Thread(target=self._work, name=f"shards-{number}", daemon=True)
            for number in range(min(max_concurrent, len(self._missing)))
        ]
        for thread in threads:
            thread.start()
        try:
            with self._changed:
                while self._unkept and self._error is None and (seconds := self._deadline.remaining()):
                    self._changed.wait(min(seconds, _MAX_WAIT_SECONDS))
        finally:
            self._end()
        for thread in threads:
            thread.join(_JOIN_SECONDS)
        if self._error is not None:
            raise self._error
        if self._unkept:
            raise TransferError(
                f"{len(self._unkept)} of {len(self._shards)} shards of {self._name} have not come in time: "
                f"{format_reasons(self._reasons | self._lies)}"
            )

    def _end(self) -> None:
        with self._changed:
            self._is_over = True
            for transfer in (transfer for running in self._running.values() for transfer in running):
                transfer.cancel()
            self._changed.notify_all()

    def _work(self) -> None:
        while (chosen := self._next()) is not None:
            shard, transfer = chosen
            try:
                self._try(shard, transfer)
            except BaseException as error:  # such as a full disk: the other threads have to end, too
                with self._changed:
                    self._error = self._error or error
            with self._changed:
                self._running[shard].remove(transfer)
                if shard in self._missing and not self._running[shard]:
                    self._waiting = {shard: None, **self._waiting}
                self._changed.notify_all()

    def _next(self) -> tuple[int, Transfer] | None:
        """Return a shard, and the relay that is asked for it. Wait until there are some; None if all is over."""
        with self._changed:
            while not self._is_over and self._error is None and self._missing:
                chosen = self._first() if self._waiting else self._second()
                if chosen is not None:
                    shard, url = chosen
                    self._waiting.pop(shard, None)
                    transfer = self._relays.start_transfer(url, self._shards[shard].length)
                    self._running[shard].append(transfer)
                    return shard, transfer
                self._changed.wait(_POLL_SECONDS)
            return None

    def _first(self) -> tuple[int, str] | None:
        """Return a waiting shard and a relay that may have it."""
        able = self._relays.available()
        for shard in islice(self._waiting, _LOOKED_AT):
            if url := self._relays.choose(self._shards[shard].length, self._asked_for(shard, able)):
                return shard, url
        return None

    def _second(self) -> tuple[int, str] | None:
        """Return a shard that is late, and another relay that should have sent it earlier."""
        able, now, best = self._relays.available(), time.monotonic(), None
        for shard, running in self._running.items():
            if len(running) != 1 or shard not in self._missing:
                continue
            passed = now - running[0].started_at
            remaining = running[0].expected_seconds - passed
            remaining = remaining if remaining > 0 else passed  # it is late: as long again is a guess
            others = [url for url in self._asked_for(shard, able) if url != running[0].url]
            size = self._shards[shard].length
            url = self._relays.choose(size, others)
            if url is not None and self._relays.expected_seconds(url, size) < _WORTH_IT * remaining:
                best = max(best or (0.0, 0, ""), (remaining, shard, url))
        return None if best is None else (best[1], best[2])

    def _asked_for(self, shard: int, able: list[str]) -> list[str]:
        """Return the relays that can be asked for a shard now."""
        now = time.monotonic()
        asked = {transfer.url for running in self._running.values() for transfer in running}
        return [
            url
            for url in able
            if max(self._absent[shard, url].until, self._failing[url].until) <= now
            and not (url in self._behind and url in asked)
        ]

    def _try(self, shard: int, transfer: Transfer) -> None:
        url = transfer.url
        try:
            content = self._fetch_one(transfer, self._shards[shard])
        except NotAvailable as error:
            self._relays.record_cancelled(transfer)
            self._note_absence(shard, url, error)
            return
        except RelayError as error:
            if shard not in self._missing or self._is_over:
                self._relays.record_cancelled(transfer)  # another relay was faster
                return
            self._relays.record_failure(transfer)
            with self._changed:
                self._reasons[url] = str(error)
                self._failing[url].extend(_MAX_FAILING_SECONDS)
            if isinstance(error, ResponseTooLarge):
                self._note_lie(url, str(error))
            return
        except BaseException:
            self._relays.record_cancelled(transfer)
            raise
        if digest(content) != self._shards[shard].digest:
            log.warning("%s sends a damaged shard %d of %s", url, shard, self._name)
            transfer.arrived_bytes = 0  # anything can be sent fast
            self._relays.record_failure(transfer)
            self._note_lie(url, "it sends damaged shards")
            return
        self._relays.record_success(transfer)
        with self._changed:
            self._behind.discard(url)
            self._failing.pop(url, None)
            is_first = shard in self._missing
            for other in self._running[shard]:
                if other is not transfer:
                    other.cancel()
            if is_first:
                self._missing.discard(shard)
        if is_first:
            self._files.write(shard, content)
            with self._changed:
                self._unkept.discard(shard)
                self._deadline.record_progress()

    def _note_absence(self, shard: int, url: str, error: NotAvailable) -> None:
        with self._changed:
            self._reasons[url] = str(error)
            if isinstance(error, RelayBusy):
                self._relays.back_off(url, error.seconds)
                return
            self._behind.add(url)
            self._absent[shard, url].extend(_MAX_ABSENT_SECONDS)

    def _note_lie(self, url: str, words: str) -> None:
        self._lies[url] = words
        self._relays.quarantine(url)


def format_reasons(reasons: dict[str, str]) -> str:
    """Return in words why no relay could be used."""
    return "; ".join(f"{url}: {reason}" for url, reason in sorted(reasons.items())) or "no relay can be asked now"
