"""Code that runs within vLLM's own worker processes."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from train.sampling import vllm_weights
from train.sampling.vllm_weights import LoadedRegion, TensorSpec
from train.weights.partial_checksums import PartialChecksum
from train.weights.source import TensorFiles

_EMBEDDING, _HEAD = "model.embed_tokens.weight", "lm_head.weight"


class WorkerExtension:
    """A mix-in for vLLM's worker class in each of its processes; `VllmSampler` calls these methods."""

    reload_weights: Any  # the worker's own
    model_runner: Any  # the worker's own
    _noise: Any = None  # CounterBasedNoiseProcessor of vllm_noise.py
    _placed: tuple[Sequence[TensorSpec], list[LoadedRegion]] | None = None

    def load_files(self, paths: Sequence[str]) -> None:
        """Load the tensors of safetensors files."""
        self.reload_weights(weights_iterator=with_lm_head(TensorFiles(tuple(map(Path, paths)))))

    def partial_checksums(self, outlines: Sequence[TensorSpec]) -> list[PartialChecksum]:
        """Return what this process holds of tensors with these outlines."""
        if self._placed is None or self._placed[0] != outlines:
            self._placed = (
                outlines,
                vllm_weights.trace_loaded_regions(self.model_runner.get_model(), outlines, with_lm_head),
            )
        return vllm_weights.partial_checksums(self._placed[1], outlines)

    def hook_output_layer(self) -> None:
        """Let verifiable requests be noted; called once, before any of them."""
        from train.sampling.vllm_noise import CounterBasedNoiseProcessor

        processors = self.model_runner.input_batch.logitsprocs.all
        self._noise = next(processor for processor in processors if isinstance(processor, CounterBasedNoiseProcessor))
        self._noise.hook_output_layer(self.model_runner.get_model())

    def take_commitments(self, finished: Sequence[tuple[str, int]]) -> list[tuple[bytes, tuple[float, ...]]]:
        """Return commitments and log-probabilities of finished answers, given their keys and numbers of tokens."""
        return [self._noise.take(key, n_tokens) for key, n_tokens in finished]

    def discard_commitments(self, keys: Sequence[str]) -> None:
        """Forget what was noted of answers that were dropped."""
        self._noise.discard(keys)


def with_lm_head(weights: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield the tensors, and an output layer at the end if there is none: it is the embedding itself then.

    On a CPU, vLLM keeps a packed copy of that layer and only renews it if the layer is among the tensors.
    """
    embedding, has_head = None, False
    for name, tensor in weights:
        if name == _EMBEDDING:
            embedding = tensor
        elif name == _HEAD:
            has_head = True
        yield name, tensor
    if embedding is not None and not has_head:
        yield _HEAD, embedding
