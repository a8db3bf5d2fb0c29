"""Weights as tensors, to an engine in the learner's own process."""

import threading

from torch import Tensor

from train.errors import TransferError
from train.weights.manifest import Probe, SentTensor, WeightManifest
from train.weights.source import Weights, with_checksums


class InProcessTransport:
    """Publisher and source at once. It keeps a copy of the newest version, since the learner changes its own tensors.

    Any thread may fetch while another one publishes.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._version = -1
        self._tensors: list[tuple[str, Tensor]] = []

    def publish(self, weights: Weights, version: int, probe: Probe | None, max_error: float) -> WeightManifest:
        """Copy the tensors to the memory of the CPU; see source.py."""
        sent: list[SentTensor] = []
        copies = [(name, tensor.detach().to("cpu", copy=True)) for name, tensor in with_checksums(weights, sent)]
        with self._lock:
            self._version, self._tensors = version, copies
        return WeightManifest(version, tensors=tuple(sent), probe=probe, max_error=max_error)

    def fetch(self, manifest: WeightManifest) -> Weights:
        """Return the tensors; see source.py."""
        with self._lock:
            if manifest.version != self._version:
                raise TransferError(f"weights {manifest.version} are gone: {self._version} have replaced them")
            return self._tensors

    def close(self) -> None:
        """Forget the tensors."""
        with self._lock:
            self._version, self._tensors = -1, []
