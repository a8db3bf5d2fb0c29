"""Fetch what a run publishes from relays that nobody trusts.

Every piece is compared with its digest in the signed manifest when it arrives, so a relay can only waste time. Pieces
are asked for in several threads, each from a relay that is drawn anew; the last ones are asked for twice.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

import urllib3

from train.errors import TransferError
from train.swarm.broadcast.manifest import (
    MOST_LATEST_BYTES,
    MOST_MANIFEST_BYTES,
    BroadcastManifest,
    Latest,
    digest,
    latest_path,
    manifest_path,
    read_latest,
    read_manifest,
    shard_path,
)
from train.swarm.broadcast.relays import Relays
from train.swarm.broadcast.request import Broken, NotThere, TooMuch, get
from train.swarm.signed import Forged

log = logging.getLogger(__name__)

AT_ONCE = 10
_SMALL_SECONDS = 10.0  # for `latest` and manifests
_BEHIND_VERSIONS, _BEHIND_SECONDS = 2, 60.0  # a relay that is so far behind the others counts as failing
_HEDGED_SHARE = 0.05  # of the shards: the last ones are asked for twice, if a thread is free
_PAUSE_SECONDS = 0.1

Keep = Callable[[int, bytes], None]


class Download:
    """What one client fetches of a run.

    relays   is asked and told which relay serves well
    run      its name
    public   the run's public key, from the invite
    at_once  shards that are fetched at once
    """

    def __init__(self, relays: Relays, run: str, public: bytes, *, at_once: int = AT_ONCE) -> None:
        self._relays, self._run, self._public, self._at_once = relays, run, public, at_once
        self._pool = urllib3.PoolManager(maxsize=at_once, num_pools=64, block=False)
        self._seen: tuple[Latest, bytes] | None = None

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()

    def latest(self) -> Latest:
        """Ask all relays for the newest version; never one before the newest that was seen.

        Raises TransferError if no relay names one that the run has signed.
        """
        return self.latest_sealed()[0]

    def latest_sealed(self) -> tuple[Latest, bytes]:
        """Do the same, and return it also as it was signed."""
        found: dict[str, Latest] = {}
        reasons = {}
        for url in self._relays.urls:
            try:
                latest, sealed = self._latest_of(url)
            except (NotThere, Broken, Forged) as error:
                reasons[url] = str(error)
                (self._relays.lied if isinstance(error, Forged | TooMuch) else self._relays.failed)(url)
                continue
            found[url] = latest
            if self._seen is None or _age(latest) > _age(self._seen[0]):
                self._seen = latest, sealed
        if not found or self._seen is None:
            raise TransferError(f"no relay names a version of {self._run}: {_listed(reasons)}")
        newest = self._seen[0]
        for url, latest in found.items():
            is_old = latest.issued_at < newest.issued_at - _BEHIND_SECONDS
            if is_old or latest.version <= newest.version - _BEHIND_VERSIONS:
                self._relays.failed(url)
        return self._seen

    def _latest_of(self, url: str) -> tuple[Latest, bytes]:
        sealed = get(self._pool, f"{url}/{latest_path(self._run)}", MOST_LATEST_BYTES, seconds=_SMALL_SECONDS)
        return read_latest(sealed, self._run, self._public), sealed

    def manifest(self, version: int, *, seconds: float) -> tuple[BroadcastManifest, bytes]:
        """Return the manifest of a version, also as it was signed. That of the newest version is the one it names.

        Raises TransferError if no relay has it in time.
        """
        until = time.monotonic() + seconds
        reasons: dict[str, str] = {}
        while time.monotonic() < until:
            url = self._relays.draw(without=reasons if len(reasons) < len(self._relays.urls) else ())
            if url is None:
                time.sleep(_PAUSE_SECONDS)
                continue
            path = f"{url}/{manifest_path(self._run, version)}"
            try:
                sealed = get(self._pool, path, MOST_MANIFEST_BYTES, seconds=_SMALL_SECONDS)
                self._check_newest(version, sealed)
                return read_manifest(sealed, self._run, version, self._public), sealed
            except NotThere as error:
                reasons[url] = str(error)
                time.sleep(_PAUSE_SECONDS)
            except (Broken, Forged) as error:
                reasons[url] = str(error)
                (self._relays.lied if isinstance(error, Forged | TooMuch) else self._relays.failed)(url)
        raise TransferError(f"no relay has the manifest of version {version} of {self._run}: {_listed(reasons)}")

    def _check_newest(self, version: int, sealed: bytes) -> None:
        """Raise Forged if this is not the manifest that was named together with the newest version."""
        if self._seen is not None and self._seen[0].version == version and self._seen[0].manifest != digest(sealed):
            raise Forged(f"this is not the manifest of version {version} that the run has named")

    def shards(self, manifest: BroadcastManifest, wanted: Iterable[int], keep: Keep, *, seconds: float) -> None:
        """Fetch shards.

        keep   is called with the number and the content of each, once, in one of several threads

        Raises TransferError if they are not all there in time, and what `keep` raises.
        """
        _Shards(self._relays, manifest, wanted, keep, time.monotonic() + seconds, self._get).fetch(self._at_once)

    def _get(self, url: str, manifest: BroadcastManifest, shard: int, stop: Callable[[], bool]) -> bytes:
        size = manifest.size_of(shard)
        path = f"{url}/{shard_path(self._run, manifest.version, shard)}"
        return get(self._pool, path, size, seconds=self._relays.deadline_seconds(size), stop=stop)


class _Shards:
    """Shards that are being fetched, by several threads."""

    def __init__(
        self, relays: Relays, manifest: BroadcastManifest, wanted: Iterable[int], keep: Keep, until: float,
        fetch_one: Callable[[str, BroadcastManifest, int, Callable[[], bool]], bytes],
    ) -> None:  # fmt: skip
        self._relays, self._manifest, self._keep, self._until = relays, manifest, keep, until
        self._fetch_one = fetch_one
        self._waiting = deque(wanted)
        self._asked: dict[int, list[str]] = {}  # relays that are being asked for a shard
        self._refused: dict[int, set[str]] = {}  # relays that did not have it when they were last asked
        self._missing = set(self._waiting)
        self._hedged = max(1, round(_HEDGED_SHARE * len(manifest.shards)))
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._reasons: dict[str, str] = {}

    def fetch(self, at_once: int) -> None:
        threads = [
            threading.Thread(target=self._work, name=f"shards-{number}", daemon=True)
            for number in range(min(at_once, len(self._missing)))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._error is not None:
            raise self._error
        if self._missing:
            raise TransferError(
                f"{len(self._missing)} of {len(self._manifest.shards)} shards of version {self._manifest.version} of "
                f"{self._manifest.run} have not come in time: {_listed(self._reasons)}"
            )

    def _work(self) -> None:
        while not self._is_over():
            shard = self._next()
            url = None if shard is None else self._relay_for(shard)
            if shard is None or url is None:
                time.sleep(_PAUSE_SECONDS)
                continue
            try:
                self._try(shard, url)
            except BaseException as error:  # such as a full disk: the other threads have to end, too
                with self._lock:
                    self._error = self._error or error
            finally:
                self._put_back(shard, url)

    def _is_over(self) -> bool:
        with self._lock:
            return not self._missing or self._error is not None or time.monotonic() > self._until

    def _next(self) -> int | None:
        """Return a shard that nobody fetches, or one of the last that one other thread is fetching."""
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            if len(self._missing) > self._hedged:
                return None
            alone = [shard for shard in self._missing if len(self._asked.get(shard, ())) == 1]
            return alone[0] if alone else None

    def _relay_for(self, shard: int) -> str | None:
        with self._lock:
            asked, refused = self._asked.setdefault(shard, []), self._refused.setdefault(shard, set())
            if len(refused) >= len(self._relays.urls):
                refused.clear()
            url = self._relays.draw(without={*asked, *refused})
            if url is None or (url in asked and len(asked) >= 1):
                if not asked:
                    self._waiting.append(shard)
                return None
            asked.append(url)
            return url

    def _try(self, shard: int, url: str) -> None:
        began = time.monotonic()
        try:
            content = self._fetch_one(url, self._manifest, shard, partial(self._is_unwanted, shard))
        except NotThere as error:
            self._note(shard, url, error)
            time.sleep(_PAUSE_SECONDS)
            return
        except Broken as error:
            if self._is_unwanted(shard):
                return  # another relay was faster; that says little about this one
            self._note(shard, url, error)
            (self._relays.lied if isinstance(error, TooMuch) else self._relays.failed)(url)
            return
        if digest(content) != self._manifest.shards[shard]:
            log.warning("%s sends a damaged shard %d of version %d", url, shard, self._manifest.version)
            self._note(shard, url, Broken("it sends damaged shards"))
            self._relays.lied(url)
            return
        self._relays.served(url, len(content), time.monotonic() - began)
        with self._lock:
            is_first = shard in self._missing
            self._missing.discard(shard)
        if is_first:
            self._keep(shard, content)

    def _is_unwanted(self, shard: int) -> bool:
        return shard not in self._missing or self._error is not None or time.monotonic() > self._until

    def _note(self, shard: int, url: str, error: Exception) -> None:
        with self._lock:
            self._reasons[url] = str(error)
            self._refused.setdefault(shard, set()).add(url)

    def _put_back(self, shard: int, url: str) -> None:
        with self._lock:
            asked = self._asked[shard]
            asked.remove(url)
            if shard in self._missing and not asked:
                self._waiting.append(shard)


def _age(latest: Latest) -> tuple[int, float]:
    return latest.version, latest.issued_at


def _listed(reasons: dict[str, str]) -> str:
    return "; ".join(f"{url}: {reason}" for url, reason in sorted(reasons.items())) or "no relay can be asked now"
