"""Fetch what a run publishes from relays that nobody trusts.

Every piece is compared with its digest in the signed manifest when it arrives, so a relay can only waste time.
"""

import logging
import queue
import threading
import time
from contextlib import suppress
from pathlib import Path

from sandbox.concurrency.sockets import SocketInterrupt
from train.errors import TransferError
from train.swarm.broadcast.manifest import (
    MAX_LATEST_BYTES,
    MAX_MANIFEST_BYTES,
    BroadcastManifest,
    LatestVersion,
    WeightShard,
    digest,
    file_path,
    latest_path,
    manifest_path,
    read_latest,
    read_manifest,
)
from train.swarm.broadcast.relay_selector import RelaySelector, Transfer
from train.swarm.broadcast.request import (
    NotAvailable,
    RelayBusy,
    RelayError,
    ResponseTooLarge,
    get,
    open_relay,
)
from train.swarm.broadcast.shard_download import ShardDownload, ShardFiles, TransferDeadline, format_reasons
from train.swarm.signatures import BadSignature

log = logging.getLogger(__name__)

MAX_CONCURRENT = 10
_SMALL_SECONDS = 10.0  # for `latest` and manifests
_OTHERS_SECONDS = 1.0  # for the other relays, when one has named the newest version
_BEHIND_VERSIONS, _BEHIND_SECONDS = 2, 60.0  # a relay that is so far behind the others counts as failing
_MIN_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS = 0.1, 2.0  # between two rounds in which no relay had a manifest
_SMALL_BYTES = 2**16  # what a manifest counts as, when a relay is drawn
_MAX_CACHED_MANIFESTS = 64


class RelayClient:
    """What one client fetches of a run.

    relays   is asked and told which relay serves well
    run      its name
    public   the run's public key, from the invite
    at_once  shards that are fetched at once

    Raises ConfigError if one of the relays has no URL.
    """

    def __init__(self, relays: RelaySelector, run: str, public: bytes, *, at_once: int = MAX_CONCURRENT) -> None:
        self._relays, self._run, self._public, self._at_once = relays, run, public, at_once
        self._clients = {url: open_relay(url, at_once) for url in relays.urls}
        self._lock = threading.Lock()
        self._seen: tuple[LatestVersion, bytes] | None = None
        self._manifests: dict[int, tuple[BroadcastManifest, bytes]] = {}

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            client.close()

    def load_last_seen(self, file: Path) -> None:
        """Take what an earlier process has seen last, as it was signed, for the newest; older ones are not accepted."""
        with suppress(OSError, BadSignature):
            sealed = file.read_bytes()
            self._see(read_latest(sealed, self._run, self._public), sealed)

    def fetch_latest(self) -> LatestVersion:
        """Ask all relays for the newest version; never one before the newest that was seen.

        Raises TransferError if no relay names one that the run has signed.
        """
        return self.fetch_signed_latest()[0]

    def fetch_signed_latest(self) -> tuple[LatestVersion, bytes]:
        """Do the same, and return it also as it was signed."""
        found, reasons = self.ask_all()
        if not found or self._seen is None:
            raise TransferError(f"no relay names a version of {self._run}: {self._in_words(reasons)}")
        newest = self._seen[0]
        for url, latest in found.items():
            is_old = latest.issued_at < newest.issued_at - _BEHIND_SECONDS
            if is_old or latest.version <= newest.version - _BEHIND_VERSIONS:
                self._relays.record_request_failure(url)
        return self._seen

    def ask_all(self) -> tuple[dict[str, LatestVersion], dict[str, str]]:
        """Return what each relay names as the newest version, and why others name none. All are asked at once."""
        answers: queue.SimpleQueue[tuple[str, LatestVersion | Exception]] = queue.SimpleQueue()
        waited_for = {url: SocketInterrupt() for url in self._relays.available()}
        for url, cancel in waited_for.items():
            threading.Thread(target=self._ask_latest, args=(url, cancel, answers), name="latest", daemon=True).start()
        found: dict[str, LatestVersion] = {}
        reasons: dict[str, str] = {}
        until = time.monotonic() + _SMALL_SECONDS
        while waited_for:
            try:
                url, answer = answers.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                break
            del waited_for[url]
            if isinstance(answer, LatestVersion):
                found[url] = answer
                until = min(until, time.monotonic() + _OTHERS_SECONDS)
            else:
                reasons[url] = str(answer)
                self._blame(url, answer)
        for url, cancel in waited_for.items():
            cancel()
            reasons[url] = "it is too slow"
            self._relays.record_request_failure(url)
        return found, reasons

    def _ask_latest(
        self, url: str, cancel: SocketInterrupt, answers: "queue.SimpleQueue[tuple[str, LatestVersion | Exception]]"
    ) -> None:
        client = self._clients[url]
        try:
            sealed = get(client, latest_path(self._run), MAX_LATEST_BYTES, seconds=_SMALL_SECONDS, interrupt=cancel)
            latest = read_latest(sealed, self._run, self._public)
        except (NotAvailable, RelayError, BadSignature) as error:
            answers.put((url, error))
            return
        self._see(latest, sealed)
        answers.put((url, latest))

    def _see(self, latest: LatestVersion, sealed: bytes) -> None:
        with self._lock:
            if self._seen is None or _age(latest) > _age(self._seen[0]):
                self._seen = latest, sealed

    def fetch_manifest(self, version: int, *, seconds: float) -> tuple[BroadcastManifest, bytes]:
        """Return the manifest of a version, also as it was signed. That of the newest version is the one it names.

        Raises TransferError if no relay has it in time.
        """
        if version not in self._manifests:
            found = self._fetched_manifest(version, time.monotonic() + seconds)
            while len(self._manifests) >= _MAX_CACHED_MANIFESTS:
                self._manifests.pop(next(iter(self._manifests)), None)
            self._manifests[version] = found
        return self._manifests[version]

    def _fetched_manifest(self, version: int, until: float) -> tuple[BroadcastManifest, bytes]:
        reasons: dict[str, str] = {}
        asked: set[str] = set()  # in this round
        absent: set[str] = set()  # of these, those that do not have it
        pause = _MIN_BACKOFF_SECONDS
        while (left := until - time.monotonic()) > 0:
            able = set(self._relays.available())
            url = self._relays.choose(_SMALL_BYTES, able - asked)
            if url is None:
                self._check_kept(version, absent)
                time.sleep(min(pause, left))
                pause = min(2 * pause, _MAX_BACKOFF_SECONDS)
                asked.clear()
                absent.clear()
                continue
            asked.add(url)
            path, seconds = manifest_path(self._run, version), min(_SMALL_SECONDS, left)
            try:
                sealed = get(self._clients[url], path, MAX_MANIFEST_BYTES, seconds=seconds)
                self._check_newest(version, sealed)
                return read_manifest(sealed, self._run, version, self._public), sealed
            except (NotAvailable, RelayError, BadSignature) as error:
                reasons[url] = str(error)
                self._blame(url, error)
                if isinstance(error, NotAvailable) and not isinstance(error, RelayBusy):
                    absent.add(url)
        raise TransferError(f"no relay has the manifest of version {version} of {self._run}: {self._in_words(reasons)}")

    def _check_kept(self, version: int, absent: set[str]) -> None:
        """Raise TransferError if no relay has a version, and a newer one is there: nobody will have it any more."""
        if self._seen is not None and self._seen[0].version > version and absent == set(self._relays.urls):
            raise TransferError(f"no relay keeps version {version} of {self._run} any more; ask for a newer one")

    def _check_newest(self, version: int, sealed: bytes) -> None:
        """Raise BadSignature if this is not the manifest that was named together with the newest version."""
        if (
            self._seen is not None
            and self._seen[0].version == version
            and self._seen[0].manifest_digest != digest(sealed)
        ):
            raise BadSignature(f"this is not the manifest of version {version} that the run has named")

    def _blame(self, url: str, error: Exception) -> None:
        if isinstance(error, BadSignature | ResponseTooLarge):
            log.warning("%s lies: %s", url, error)
            self._relays.quarantine(url)
        elif isinstance(error, RelayBusy):
            self._relays.back_off(url, error.seconds)
        elif isinstance(error, RelayError):
            self._relays.record_request_failure(url)

    def _in_words(self, reasons: dict[str, str]) -> str:
        alone = self._relays.seconds_until_available()
        return format_reasons(reasons) + (f"; all relays are left alone for another {alone:.0f} s" if alone > 0 else "")

    def fetch_shards(self, manifest: BroadcastManifest, files: ShardFiles, deadline: TransferDeadline) -> None:
        """Fetch the shards of a version that its files lack.

        Raises TransferError if they are not all there in time, and OSError if they cannot be written.
        """

        def fetch_one(transfer: Transfer, shard: WeightShard) -> bytes:
            return get(
                self._clients[transfer.url], file_path(self._run, manifest.version, shard.file), shard.length,
                offset=shard.offset, seconds=transfer.deadline_seconds, interrupt=transfer.cancel,
                on_progress=transfer.record_progress,
            )  # fmt: skip

        name = f"version {manifest.version} of {self._run}"
        ShardDownload(self._relays, name, files, deadline, fetch_one).fetch(self._at_once)


def _age(latest: LatestVersion) -> tuple[int, float]:
    return latest.version, latest.issued_at
