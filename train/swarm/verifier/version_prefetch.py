"""The versions of the weights that a verifier needs. The newest is fetched in the background, before files need it."""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from train.errors import TransferError
from train.swarm.broadcast.relay_client import RelayClient
from train.swarm.broadcast.relay_selector import RelaySelector
from train.swarm.broadcast.relay_source import default_folder
from train.swarm.broadcast.version_store import VersionStore
from train.swarm.protocol.invites import Invite

log = logging.getLogger(__name__)

_POLL_SECONDS = 2.0
_NEWEST_SECONDS = 3600.0  # for a whole model over a slow line
_WAIT_SECONDS = 240.0  # for a version that a file needs: then the coordinator waits


class VersionPrefetcher:
    """Versions in a folder that all verifiers of this machine share.

    keep     so many versions stay, those that were fetched last
    fetched  is called with each version that has come, from another thread
    """

    def __init__(
        self, invite: Invite, *, keep: int, fetched: Callable[[int], None], folder: Path | None = None
    ) -> None:  # fmt: skip
        self._download = RelayClient(
            RelaySelector(invite.relays or (invite.coordinator,)), invite.run, invite.public_key
        )
        folder = folder or default_folder(invite.run, invite.public_key)
        # More stay on the disk than are handed out, so that none is removed while it is being read.
        self._versions, self._keep = VersionStore(folder, self._download, keep=keep + 2), keep
        self._here: dict[int, tuple[Path, ...]] = {}  # in the order in which they came
        self._lock = threading.Lock()  # of what is here
        self._fetched = fetched
        self._newest = -1
        self._failing: tuple[float, TransferError] | None = None  # since when, and why
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="versions", daemon=True)

    def start(self) -> None:
        """Begin to follow the run."""
        self._thread.start()

    def fetch_files(self, version: int) -> tuple[Path, ...]:
        """Return the files of a version. Raises TransferError if it cannot be had in time.

        A version that is here does not wait for another one that is on its way.
        """
        with self._lock:
            files = self._here.get(version)
        return files or self._fetch(version, _WAIT_SECONDS)

    def wait_for_first(self, timeout_seconds: float, should_stop: Callable[[], bool]) -> None:
        """Wait until a version is here, or `should_stop` returns that there is no point in it.

        Raises TransferError if no relay has named a version for so long.
        """
        while self._newest < 0 and not should_stop():
            failing = self._failing
            if failing is not None and time.monotonic() - failing[0] > timeout_seconds:
                raise TransferError(f"there are no weights, after {timeout_seconds:.0f} s: {failing[1]}")

    def _fetch(self, version: int, seconds: float) -> tuple[Path, ...]:
        place, manifest = self._versions.fetch(version, seconds=seconds)
        files = tuple(place / file.name for file in manifest.weights.files)
        with self._lock:
            self._here.pop(version, None)
            self._here[version] = files
            for old in [*self._here][: -self._keep]:
                del self._here[old]
        return files

    def close(self) -> None:
        """Stop following, and remove what no process of this machine reads any more."""
        self._stop.set()
        self._versions.close()
        self._download.close()

    def _follow(self) -> None:
        said = ""
        while not self._stop.wait(_POLL_SECONDS if self._newest >= 0 else _POLL_SECONDS / 4):
            try:
                version = self._download.fetch_latest().version
                if version != self._newest:
                    self._fetch(version, _NEWEST_SECONDS)
                    self._newest, said = version, ""
                    self._fetched(version)
                self._failing = None  # only now: relays may name what they do not send
            except TransferError as error:
                self._failing = self._failing or (time.monotonic(), error)
                (log.debug if str(error) == said else log.warning)("%s", error)
                said = str(error)
