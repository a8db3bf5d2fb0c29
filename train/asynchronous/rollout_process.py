"""The process of `curate rollout`: one engine and its worker."""

import logging
import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from train.asynchronous.client import ControllerClient
from train.asynchronous.controller_threads import RetryPolicy
from train.asynchronous.rollout_worker import RolloutWorker
from train.errors import TransferError
from train.sampling.engine_spec import EngineSpec, clear_trainer_environment, start_engine
from train.sampling.model_check import check_model
from train.weights.http_source import HttpSource, locate_download_folder
from train.weights.manifest import WeightManifest
from train.weights.source import SharedMemoryTransport, TensorFiles, WeightSource, locate_files

log = logging.getLogger(__name__)

TOKEN_VARIABLE = "CURATE_TOKEN"  # environment variable with the run's token, for trainer and workers

LogLine = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RolloutOptions:
    """Options of a worker.

    url                    URL of the controller
    model                  folder or Hub id; empty for the run's model
    engine                 options of the section [engine] that override the run's
    name                   unique in the run; empty to derive it from the host name
    retry_timeout_seconds  deadline for retries of calls to an unreachable controller
    token                  the run's token, or None
    weight_source_factory  creates the source of weights for a run; None for LocalFirstSource
    """

    url: str
    model: str = ""
    engine: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    retry_timeout_seconds: float = 600.0
    token: str | None = field(default=None, repr=False)
    weight_source_factory: Callable[[EngineSpec], WeightSource] | None = None


class RolloutProcess:
    """One worker with one engine in this process. note: receives lines about progress."""

    def __init__(self, options: RolloutOptions, note: LogLine = log.info) -> None:
        self._options = options
        self._controller = ControllerClient(options.url, options.token)
        self._name = options.name or f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:4]}"
        self._note = note
        self._worker: RolloutWorker | None = None
        self._is_leaving = False

    def run(self) -> None:
        """Sample until the run ends or `leave` is called.

        Raises the errors of RolloutWorker.run, and ConfigError for unknown engine options.
        """
        with closing(self._controller):
            spec = RetryPolicy(self._options.retry_timeout_seconds, self._pause).call_with_retries(
                self._controller.fetch_engine_spec
            )
            if spec is None:
                return
            model = self._options.model or spec.model
            check_model(model)
            self._note(f"worker {self._name}: starting an engine with {model}")
            clear_trainer_environment()
            with (
                closing(start_engine(spec, model, self._options.engine)) as engine,
                closing(self._create_source(spec)) as source,
            ):
                self._worker = RolloutWorker(
                    self._controller,
                    engine,
                    source,
                    name=self._name,
                    retry_timeout_seconds=self._options.retry_timeout_seconds,
                    whole_leases=spec.whole_leases,
                    on_loaded=self._log_load,
                )
                if not self._is_leaving:
                    self._worker.run()
        self._note(f"worker {self._name}: " + ("has left" if self._is_leaving else "the run is over"))

    def leave(self) -> None:
        """Shut down gracefully, from any thread or signal handler."""
        self._is_leaving = True
        if self._worker is not None:
            self._worker.leave()

    def _create_source(self, spec: EngineSpec) -> WeightSource:
        if self._options.weight_source_factory is not None:
            return self._options.weight_source_factory(spec)
        return LocalFirstSource(self._options.url, self._controller.headers)

    def _log_load(self, manifest: WeightManifest, metrics: Mapping[str, float]) -> None:
        self._note(f"worker {self._name}: loaded weights {manifest.version} in {metrics['weight_load_s']:.1f} s")

    def _pause(self, seconds: float) -> bool:
        time.sleep(seconds)
        return not self._is_leaving


class LocalFirstSource:
    """A weight source (train/weights/source.py) that tries shared memory or the manifest's folder, then HTTP.

    url      URL of the controller
    headers  headers of requests to the controller
    folder   folder for downloads; None: a folder that all workers of this machine share
    """

    def __init__(self, url: str, headers: Mapping[str, str], folder: Path | None = None) -> None:
        self._memory = SharedMemoryTransport()
        self._http = HttpSource(url, headers, folder or locate_download_folder(url))

    def fetch(self, manifest: WeightManifest) -> TensorFiles:
        """Fetch the files. Raises TransferError if both transports fail."""
        try:
            if manifest.folder.startswith("/proc/"):
                return self._memory.fetch(manifest)
            return locate_files(manifest, Path(manifest.folder))
        except TransferError as error:
            log.debug("fetched over HTTP: %s", error)
            return self._http.fetch(manifest)

    def close(self) -> None:
        """Remove the downloaded files, unless another process of this machine reads them."""
        self._memory.close()
        self._http.close()


def main(url: str, name: str) -> None:
    """Run a worker as a child process of `LocalWorkers`."""
    options = RolloutOptions(url, name=name, token=os.environ.get(TOKEN_VARIABLE) or None)
    RolloutProcess(options, note=partial(print, flush=True)).run()
