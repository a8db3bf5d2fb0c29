"""Weights from wherever this machine can read them soonest."""

import logging
from collections.abc import Mapping
from pathlib import Path

from train.errors import TransferError
from train.weights.files import locate_files
from train.weights.http_source import HttpSource, default_folder
from train.weights.manifest import WeightManifest
from train.weights.shared_memory import SharedMemoryTransport
from train.weights.source import TensorFiles

log = logging.getLogger(__name__)


class LocalFirstSource:
    """A source (train/weights/source.py) of files in this machine's memory, in a folder that it sees, or over HTTP.

    url, headers  of the controller
    folder        where files from other machines are kept; None: one that all workers of this machine share
    """

    def __init__(self, url: str, headers: Mapping[str, str], folder: Path | None = None) -> None:
        self._memory = SharedMemoryTransport()
        self._http = HttpSource(url, headers, folder or default_folder(url))

    def fetch(self, manifest: WeightManifest) -> TensorFiles:
        """Return the files. Raises TransferError if they cannot be had in any way."""
        try:
            if manifest.folder.startswith("/proc/"):
                return self._memory.fetch(manifest)
            return locate_files(manifest, Path(manifest.folder))
        except TransferError as error:
            log.debug("fetched over HTTP: %s", error)
            return self._http.fetch(manifest)

    def close(self) -> None:
        """Remove what was copied, unless another process of this machine reads it."""
        self._memory.close()
        self._http.close()
