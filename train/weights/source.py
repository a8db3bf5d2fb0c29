"""What every way of handing weights over offers: a publisher for the learner, and a source for the engines."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from train.errors import TransferError
from train.weights.manifest import Probe, SentTensor, WeightManifest

if TYPE_CHECKING:
    from torch import Tensor

Weights = Iterable[tuple[str, "Tensor"]]  # whole tensors under the names that the model's files have


class WeightPublisher(Protocol):
    """Makes versions of the weights available, on the learner's side. Sources see a version whole or not at all."""

    def publish(self, weights: Weights, version: int, probe: Probe | None, max_error: float) -> WeightManifest:
        """Read the tensors once, one after another, and return what sources need in order to fetch them.

        The newest two versions are kept. Raises TransferError if there is no room for them.
        """

    def close(self) -> None:
        """Remove all versions."""


class WeightSource(Protocol):
    """Fetches versions of the weights, on the engines' side."""

    def fetch(self, manifest: WeightManifest) -> Weights:
        """Bring the weights to this machine, and return them as `Engine.load` takes them. The engine may sample on.

        Raises TransferError if they cannot be fetched, for example because newer ones have replaced them.
        """

    def close(self) -> None:
        """Remove what was fetched."""


@dataclass(frozen=True, slots=True)
class TensorFiles:
    """The tensors of safetensors files. Each of an engine's processes can read the files by itself."""

    paths: tuple[Path, ...]

    def __iter__(self) -> "Iterator[tuple[str, Tensor]]":
        """Read the tensors one after another. Raises TransferError if that is not possible any more."""
        from safetensors import SafetensorError, safe_open

        for path in self.paths:
            try:
                with safe_open(path, framework="pt") as file:
                    for name in file.keys():  # noqa: SIM118 - it is not a mapping
                        yield name, file.get_tensor(name)
            except (OSError, SafetensorError) as error:
                raise TransferError(
                    f"{path}: weights that were fetched cannot be read: {error}. Start the worker again"
                ) from error


def with_checksums(weights: Weights, tensors: list[SentTensor]) -> "Iterator[tuple[str, Tensor]]":
    """Pass tensors on, and add a note with the checksum of each to `tensors`."""
    from train.weights.checksums import checksum

    for name, tensor in weights:
        dtype = str(tensor.dtype).removeprefix("torch.")
        tensors.append(SentTensor(name, dtype, tuple(tensor.shape), checksum(tensor)))
        yield name, tensor
