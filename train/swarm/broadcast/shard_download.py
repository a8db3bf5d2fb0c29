"""Concurrent download of the shards of a version, each from the relay with the shortest expected transfer time.

Once every shard has been requested, late shards are requested again, from a second relay. The first valid copy wins.
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
from train.swarm.broadcast.manifest import WeightShard, compute_digest
from train.swarm.broadcast.relay_selector import RelaySelector, Transfer
from train.swarm.broadcast.request import NotAvailable, RelayBusy, RelayError, ResponseTooLarge

log = logging.getLogger(__name__)

_MAX_SCANNED_SHARDS = 64  # maximum number of waiting shards for which each poll seeks a relay
_POLL_SECONDS = 0.05
_MIN_BACKOFF_SECONDS, _BACKOFF_FACTOR = 0.02, 1.5
_MAX_ABSENT_SECONDS = 0.5  # maximum backoff before a relay that lacks a shard is asked for it again
_MAX_FAILING_SECONDS = 2.0  # maximum backoff of a failing relay
_JOIN_SECONDS = 2.0
_MAX_WAIT_SECONDS = 60.0  # finite, because Condition.wait does not accept infinity
_MAX_SECOND_SHARE = 0.8  # a second relay must need at most this share of the first relay's remaining time

FetchShard = Callable[[Transfer, WeightShard], bytes]


@dataclass(slots=True)
class TransferDeadline:
    """The deadline of a transfer, and a stall timeout. Times are those of the monotonic clock.

    until          deadline
    stall_seconds  maximum time without progress
    progress_at    time of the last progress
    """

    until: float = inf
    stall_seconds: float = inf
    progress_at: float = field(default_factory=time.monotonic)

    @classmethod
    def from_now(cls, seconds: float, stall_seconds: float = inf) -> "TransferDeadline":
        """Return a deadline `seconds` from now."""
        return cls(time.monotonic() + seconds, stall_seconds)

    def record_progress(self) -> None:
        self.progress_at = time.monotonic()

    def get_remaining_seconds(self) -> float:
        """Return the seconds until the deadline or the stall timeout, the earlier of them; at least 0."""
        return max(0.0, min(self.until, self.progress_at + self.stall_seconds) - time.monotonic())


@dataclass(slots=True)
class _Backoff:
    n_failures: int = 0
    until: float = 0.0

    def extend(self, max_seconds: float) -> None:
        """Start the next pause, longer than the previous one. Do nothing during a pause."""
        now = time.monotonic()
        if self.until <= now:
            self.until = now + min(_MIN_BACKOFF_SECONDS * _BACKOFF_FACTOR**self.n_failures, max_seconds)
            self.n_failures = min(self.n_failures + 1, 20)


class ShardFiles:
    """The files of a version, to which shards are written. Thread-safe.

    Partial files have hidden names. Valid shards in the files of an earlier process are reused.

    Raises OSError if the files cannot be created.
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
        """The indices of shards not yet written."""
        with self._lock:
            return [number for missing in self._missing.values() for number in missing]

    def write(self, number: int, content: bytes) -> None:
        """Write a verified shard, and complete its file if it was the last one. Raises OSError if the disk is full."""
        shard = self.shards[number]
        if number not in self._missing[shard.file]:
            return
        with self._locate_hidden(shard.file).open("r+b") as file:
            file.seek(shard.offset)
            file.write(content)
        with self._lock:
            if self._missing[shard.file].pop(number, None) is not None:
                self._rename_if_complete(shard.file)

    def find_partial_file(self, name: str, start: int, stop: int) -> Path | None:
        """Return the path of a partial file if it already has the bytes [start, stop); otherwise None."""
        with self._lock:
            missing = self._missing.get(name)
            if not missing or any(
                shard.offset < stop and start < shard.offset + shard.length for shard in missing.values()
            ):
                return None
            return self._locate_hidden(name)

    def _open(self, name: str) -> None:
        """Create a sparse file of full size, or find the valid shards of an existing file."""
        missing = self._missing[name]
        if (self._folder / name).exists():
            (self._folder / name).replace(self._locate_hidden(name))
        with self._locate_hidden(name).open("a+b") as file:
            is_new = file.seek(0, SEEK_END) == 0
            file.truncate(sum(shard.length for shard in missing.values()))
            for number, shard in () if is_new else tuple(missing.items()):
                file.seek(shard.offset)
                if compute_digest(file.read(shard.length)) == shard.digest:
                    del missing[number]
        self._rename_if_complete(name)

    def _rename_if_complete(self, name: str) -> None:
        if not self._missing[name]:
            self._locate_hidden(name).replace(self._folder / name)

    def _locate_hidden(self, name: str) -> Path:
        return self._folder / f".{name}"


class ShardDownload:
    """A download of the missing shards of a version, requested in order.

    name       name of the version, for messages
    fetch_one  fetches a shard in a transfer; raises NotAvailable and RelayError
    """

    def __init__(
        self, relays: RelaySelector, name: str, files: ShardFiles, deadline: TransferDeadline, fetch_one: FetchShard
    ) -> None:
        self._relays, self._name, self._files, self._deadline = relays, name, files, deadline
        self._shards, self._fetch_one = files.shards, fetch_one
        self._waiting = dict.fromkeys(files.missing)
        self._missing = set(self._waiting)
        self._unwritten = set(self._waiting)
        self._running: dict[int, list[Transfer]] = defaultdict(list)
        self._absent: dict[tuple[int, str], _Backoff] = defaultdict(_Backoff)
        self._failing: dict[str, _Backoff] = defaultdict(_Backoff)
        self._behind: set[str] = set()  # relays that lacked the last requested shard; they get one request at a time
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._has_ended = False
        self._reasons: dict[str, str] = {}
        self._quarantine_reasons: dict[str, str] = {}

    def fetch(self, max_concurrent: int) -> None:
        """Fetch all missing shards, in `max_concurrent` threads.

        Raises TransferError if a shard does not arrive in time, and OSError if it cannot be written.
        """
        threads = [
            threading.Thread(target=self._run_thread, name=f"shards-{number}", daemon=True)
            for number in range(min(max_concurrent, len(self._missing)))
        ]
        for thread in threads:
            thread.start()
        try:
            with self._changed:
                while self._unwritten and self._error is None and (seconds := self._deadline.get_remaining_seconds()):
                    self._changed.wait(min(seconds, _MAX_WAIT_SECONDS))
        finally:
            self._cancel_all()
        for thread in threads:
            thread.join(_JOIN_SECONDS)
        if self._error is not None:
            raise self._error
        if self._unwritten:
            raise TransferError(
                f"{len(self._unwritten)} of {len(self._shards)} shards of {self._name} did not arrive in time: "
                f"{format_reasons(self._reasons | self._quarantine_reasons)}"
            )

    def _cancel_all(self) -> None:
        with self._changed:
            self._has_ended = True
            for transfer in (transfer for running in self._running.values() for transfer in running):
                transfer.cancel()
            self._changed.notify_all()

    def _run_thread(self) -> None:
        while (chosen := self._wait_for_transfer()) is not None:
            shard, transfer = chosen
            try:
                self._fetch_shard(shard, transfer)
            except BaseException as error:  # such as a full disk; `fetch` stops all threads, and raises it
                with self._changed:
                    self._error = self._error or error
            with self._changed:
                self._running[shard].remove(transfer)
                if shard in self._missing and not self._running[shard]:
                    self._waiting = {shard: None, **self._waiting}
                self._changed.notify_all()

    def _wait_for_transfer(self) -> tuple[int, Transfer] | None:
        """Wait until a shard can be requested, and start its transfer. Return None once the download has ended."""
        with self._changed:
            while not self._has_ended and self._error is None and self._missing:
                chosen = self._choose_waiting() if self._waiting else self._choose_late()
                if chosen is not None:
                    shard, url = chosen
                    self._waiting.pop(shard, None)
                    transfer = self._relays.start_transfer(url, self._shards[shard].length)
                    self._running[shard].append(transfer)
                    return shard, transfer
                self._changed.wait(_POLL_SECONDS)
            return None

    def _choose_waiting(self) -> tuple[int, str] | None:
        """Choose a shard that has not been requested, and a relay for it; None if no relay is free."""
        available = self._relays.list_available()
        for shard in islice(self._waiting, _MAX_SCANNED_SHARDS):
            if url := self._relays.choose(self._shards[shard].length, self._list_candidates(shard, available)):
                return shard, url
        return None

    def _choose_late(self) -> tuple[int, str] | None:
        """Choose the shard with the longest expected remaining time, and a faster relay; None if there is none."""
        available, now, best = self._relays.list_available(), time.monotonic(), None
        for shard, running in self._running.items():
            if len(running) != 1 or shard not in self._missing:
                continue
            passed = now - running[0].started_at
            remaining = running[0].expected_seconds - passed
            remaining = remaining if remaining > 0 else passed  # assume that an overdue transfer takes twice as long
            others = [url for url in self._list_candidates(shard, available) if url != running[0].url]
            size = self._shards[shard].length
            url = self._relays.choose(size, others)
            if url is not None and self._relays.estimate_seconds(url, size) < _MAX_SECOND_SHARE * remaining:
                best = max(best or (0.0, 0, ""), (remaining, shard, url))
        return None if best is None else (best[1], best[2])

    def _list_candidates(self, shard: int, available: list[str]) -> list[str]:
        """Return the available relays that can be asked for this shard now."""
        now = time.monotonic()
        busy = {transfer.url for running in self._running.values() for transfer in running}
        return [
            url
            for url in available
            if max(self._absent[shard, url].until, self._failing[url].until) <= now
            and not (url in self._behind and url in busy)
        ]

    def _fetch_shard(self, shard: int, transfer: Transfer) -> None:
        url = transfer.url
        try:
            content = self._fetch_one(transfer, self._shards[shard])
        except NotAvailable as error:
            self._relays.record_cancelled(transfer)
            self._record_absence(shard, url, error)
            return
        except RelayError as error:
            if shard not in self._missing or self._has_ended:
                self._relays.record_cancelled(transfer)  # another relay sent the shard first
                return
            self._relays.record_failure(transfer)
            with self._changed:
                self._reasons[url] = str(error)
                self._failing[url].extend(_MAX_FAILING_SECONDS)
            if isinstance(error, ResponseTooLarge):
                self._quarantine(url, str(error))
            return
        except BaseException:
            self._relays.record_cancelled(transfer)
            raise
        if compute_digest(content) != self._shards[shard].digest:
            log.warning("relay %s is quarantined: it sent a damaged shard %d of %s", url, shard, self._name)
            transfer.arrived_bytes = 0  # exclude corrupt data from the measured bandwidth
            self._relays.record_failure(transfer)
            self._quarantine(url, "it sent a damaged shard")
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
                self._unwritten.discard(shard)
                self._deadline.record_progress()

    def _record_absence(self, shard: int, url: str, error: NotAvailable) -> None:
        with self._changed:
            self._reasons[url] = str(error)
            if isinstance(error, RelayBusy):
                self._relays.back_off(url, error.seconds)
                return
            self._behind.add(url)
            self._absent[shard, url].extend(_MAX_ABSENT_SECONDS)

    def _quarantine(self, url: str, reason: str) -> None:
        self._quarantine_reasons[url] = reason
        self._relays.quarantine(url)


def format_reasons(reasons: dict[str, str]) -> str:
    """Describe the failure of each relay. reasons: reason by URL."""
    return "; ".join(f"{url}: {reason}" for url, reason in sorted(reasons.items())) or "no relay is available"
