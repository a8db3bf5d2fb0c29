"""Client for the weights of a run on untrusted relays; it verifies each shard against the signed manifest."""

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
    build_file_path,
    build_latest_path,
    build_manifest_path,
    compute_digest,
    read_latest,
    read_manifest,
)
from train.swarm.broadcast.relay_selector import RelaySelector, Transfer
from train.swarm.broadcast.request import NotAvailable, RelayBusy, RelayError, ResponseTooLarge, get, open_relay
from train.swarm.broadcast.shard_download import ShardDownload, ShardFiles, TransferDeadline, format_reasons
from train.swarm.signatures import BadSignature

log = logging.getLogger(__name__)

MAX_CONCURRENT = 10
_REQUEST_SECONDS = 10.0  # timeout of a request for `latest` or a manifest
_STRAGGLER_SECONDS = 1.0  # timeout of the other relays after the first one has sent `latest`
_MAX_LAG_VERSIONS, _MAX_LAG_SECONDS = 2, 60.0  # lag behind the newest `latest` that counts as a failure of a relay
_MIN_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS = 0.1, 2.0  # pause after asking all relays for a manifest in vain
_ASSUMED_MANIFEST_BYTES = 2**16  # to estimate the transfer time when choosing a relay
_MAX_CACHED_MANIFESTS = 64


class RelayClient:
    """A client that fetches the weights of a run from relays.

    relays          selector of relays
    public_key      public key of the run, from the invite
    max_concurrent  number of shards to fetch concurrently

    Raises ConfigError if the URL of a relay is invalid.
    """

    def __init__(
        self, relays: RelaySelector, run: str, public_key: bytes, *, max_concurrent: int = MAX_CONCURRENT
    ) -> None:
        self._relays, self._run, self._public_key, self._max_concurrent = relays, run, public_key, max_concurrent
        self._clients = {url: open_relay(url, max_concurrent) for url in relays.urls}
        self._lock = threading.Lock()
        self._newest: tuple[LatestVersion, bytes] | None = None  # the newest `latest`, decoded and signed
        self._manifests: dict[int, tuple[BroadcastManifest, bytes]] = {}

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def load_stored_latest(self, file: Path) -> None:
        """Load the signed `latest` of an earlier process, to reject older ones. Ignore a missing or invalid file."""
        with suppress(OSError, BadSignature):
            signed = file.read_bytes()
            self._record_latest(read_latest(signed, self._run, self._public_key), signed)

    def fetch_latest(self) -> LatestVersion:
        """Request `latest` from all relays, and return the newest one that any relay has ever sent.

        Raises TransferError if no relay sends a validly signed `latest` now.
        """
        return self.fetch_signed_latest()[0]

    def fetch_signed_latest(self) -> tuple[LatestVersion, bytes]:
        """Return the result of `fetch_latest`, decoded and signed."""
        by_relay, reasons = self.fetch_latest_by_relay()
        if not by_relay or self._newest is None:
            raise TransferError(f"no relay serves a version of {self._run}: {self._describe(reasons)}")
        newest = self._newest[0]
        for url, latest in by_relay.items():
            is_old = latest.issued_at < newest.issued_at - _MAX_LAG_SECONDS
            if is_old or latest.version <= newest.version - _MAX_LAG_VERSIONS:
                self._relays.record_request_failure(url)
        return self._newest

    def fetch_latest_by_relay(self) -> tuple[dict[str, LatestVersion], dict[str, str]]:
        """Request `latest` from all available relays concurrently.

        Returns `latest` of each relay that sent one, and the errors of the other relays.
        """
        replies: queue.SimpleQueue[tuple[str, LatestVersion | Exception]] = queue.SimpleQueue()
        pending = {url: SocketInterrupt() for url in self._relays.list_available()}
        for url, cancel in pending.items():
            threading.Thread(
                target=self._request_latest, args=(url, cancel, replies), name="latest", daemon=True
            ).start()
        by_relay: dict[str, LatestVersion] = {}
        reasons: dict[str, str] = {}
        until = time.monotonic() + _REQUEST_SECONDS
        while pending:
            try:
                url, reply = replies.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                break
            del pending[url]
            if isinstance(reply, LatestVersion):
                by_relay[url] = reply
                until = min(until, time.monotonic() + _STRAGGLER_SECONDS)
            else:
                reasons[url] = str(reply)
                self._record_error(url, reply)
        for url, cancel in pending.items():
            cancel()
            reasons[url] = "timed out"
            self._relays.record_request_failure(url)
        return by_relay, reasons

    def _request_latest(
        self, url: str, cancel: SocketInterrupt, replies: "queue.SimpleQueue[tuple[str, LatestVersion | Exception]]"
    ) -> None:
        client = self._clients[url]
        try:
            signed = get(
                client, build_latest_path(self._run), MAX_LATEST_BYTES, seconds=_REQUEST_SECONDS, interrupt=cancel
            )
            latest = read_latest(signed, self._run, self._public_key)
        except (NotAvailable, RelayError, BadSignature) as error:
            replies.put((url, error))
            return
        self._record_latest(latest, signed)
        replies.put((url, latest))

    def _record_latest(self, latest: LatestVersion, signed: bytes) -> None:
        with self._lock:
            if self._newest is None or _get_recency(latest) > _get_recency(self._newest[0]):
                self._newest = latest, signed

    def fetch_manifest(self, version: int, *, seconds: float) -> tuple[BroadcastManifest, bytes]:
        """Return the manifest of a version, decoded and signed.

        Verifies the signature and, for the newest version, the digest in `latest`. Raises TransferError if no relay
        sends a valid manifest in time.
        """
        if version not in self._manifests:
            manifest = self._download_manifest(version, time.monotonic() + seconds)
            while len(self._manifests) >= _MAX_CACHED_MANIFESTS:
                self._manifests.pop(next(iter(self._manifests)), None)
            self._manifests[version] = manifest
        return self._manifests[version]

    def _download_manifest(self, version: int, until: float) -> tuple[BroadcastManifest, bytes]:
        reasons: dict[str, str] = {}
        tried: set[str] = set()  # relays requested since the last pause
        absent: set[str] = set()  # relays in `tried` that returned 404
        pause = _MIN_BACKOFF_SECONDS
        while (left := until - time.monotonic()) > 0:
            available = set(self._relays.list_available())
            url = self._relays.choose(_ASSUMED_MANIFEST_BYTES, available - tried)
            if url is None:
                self._check_retained(version, absent)
                time.sleep(min(pause, left))
                pause = min(2 * pause, _MAX_BACKOFF_SECONDS)
                tried.clear()
                absent.clear()
                continue
            tried.add(url)
            path, seconds = build_manifest_path(self._run, version), min(_REQUEST_SECONDS, left)
            try:
                signed = get(self._clients[url], path, MAX_MANIFEST_BYTES, seconds=seconds)
                self._check_newest(version, signed)
                return read_manifest(signed, self._run, version, self._public_key), signed
            except (NotAvailable, RelayError, BadSignature) as error:
                reasons[url] = str(error)
                self._record_error(url, error)
                if isinstance(error, NotAvailable) and not isinstance(error, RelayBusy):
                    absent.add(url)
        raise TransferError(f"no relay has the manifest of version {version} of {self._run}: {self._describe(reasons)}")

    def _check_retained(self, version: int, absent: set[str]) -> None:
        """Raise TransferError if a version is older than the newest, and all relays lack it."""
        if self._newest is not None and self._newest[0].version > version and absent == set(self._relays.urls):
            raise TransferError(f"all relays have dropped version {version} of {self._run}; fetch a newer version")

    def _check_newest(self, version: int, signed: bytes) -> None:
        """Raise BadSignature if the signed manifest of the newest version differs from its digest in `latest`."""
        if (
            self._newest is not None
            and self._newest[0].version == version
            and self._newest[0].manifest_digest != compute_digest(signed)
        ):
            raise BadSignature(f"the manifest of version {version} differs from its digest in `latest`")

    def _record_error(self, url: str, error: Exception) -> None:
        if isinstance(error, BadSignature | ResponseTooLarge):
            log.warning("relay %s is quarantined: %s", url, error)
            self._relays.quarantine(url)
        elif isinstance(error, RelayBusy):
            self._relays.back_off(url, error.seconds)
        elif isinstance(error, RelayError):
            self._relays.record_request_failure(url)

    def _describe(self, reasons: dict[str, str]) -> str:
        pause = self._relays.get_seconds_until_available()
        return format_reasons(reasons) + (
            f"; all relays are in backoff or quarantine for {pause:.0f} s" if pause > 0 else ""
        )

    def fetch_shards(self, manifest: BroadcastManifest, files: ShardFiles, deadline: TransferDeadline) -> None:
        """Fetch the missing shards of a version to `files`.

        Raises TransferError if a shard does not arrive in time, and OSError if it cannot be written.
        """

        def fetch_one(transfer: Transfer, shard: WeightShard) -> bytes:
            return get(
                self._clients[transfer.url], build_file_path(self._run, manifest.version, shard.file), shard.length,
                offset=shard.offset, seconds=transfer.deadline_seconds, interrupt=transfer.cancel,
                on_progress=transfer.record_progress,
            )  # fmt: skip

        name = f"version {manifest.version} of {self._run}"
        ShardDownload(self._relays, name, files, deadline, fetch_one).fetch(self._max_concurrent)


def _get_recency(latest: LatestVersion) -> tuple[int, float]:
    return latest.version, latest.issued_at
