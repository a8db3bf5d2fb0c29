"""Code that runs in vLLM's worker processes: methods for `VllmSampler`, and counter-based noise.

vLLM samples verifiable requests greedily, from logits to which a logits processor adds noise. The processor records
each token's hidden state and log-probability; vLLM's own log-probabilities, of the noisy logits, are meaningless.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor
from vllm.v1.sample.logits_processor.builtin import process_dict_updates

from train.sampling import vllm_weights
from train.sampling.seeded_sampling import CommitmentRecorder, sample_tokens
from train.sampling.vllm_weights import LoadedRegion, TensorSpec, append_lm_head
from train.weights.checksums import PartialChecksum
from train.weights.source import TensorFiles

VERIFIABLE_KEY = "verifiable"  # key in SamplingParams.extra_args
_MAX_ROWS = 32  # maximum rows per call of sample_tokens, which needs several times the memory of their logits


class WorkerExtension:
    """A mix-in of vLLM's worker class. `VllmSampler` calls its methods in each worker process."""

    reload_weights: Any  # method of vLLM's worker
    model_runner: Any  # attribute of vLLM's worker
    _noise: "CounterBasedNoiseProcessor"
    _traced: tuple[Sequence[TensorSpec], list[LoadedRegion]] | None = None

    def load_files(self, paths: Sequence[str]) -> None:
        self.reload_weights(weights_iterator=append_lm_head(TensorFiles(tuple(map(Path, paths)))))

    def compute_partial_checksums(self, specs: Sequence[TensorSpec]) -> list[PartialChecksum]:
        """Return partial checksums of this process's shards of the tensors with these specs."""
        if self._traced is None or self._traced[0] != specs:
            self._traced = specs, vllm_weights.trace_loaded_regions(self.model_runner.get_model(), specs)
        return vllm_weights.compute_partial_checksums(self._traced[1], specs)

    def hook_output_layer(self) -> None:
        """Start to record hidden states. Call once, before the first verifiable request."""
        from vllm.model_executor.layers.logits_processor import LogitsProcessor as Head

        processors = self.model_runner.input_batch.logitsprocs.all
        self._noise = next(processor for processor in processors if isinstance(processor, CounterBasedNoiseProcessor))
        head = next(module for module in self.model_runner.get_model().modules() if isinstance(module, Head))
        head.register_forward_pre_hook(self._noise.record_hidden)

    def take_commitments(self, finished: Sequence[tuple[str, int]]) -> list[tuple[bytes, tuple[float, ...]]]:
        """Return commitments and log-probabilities of finished completions, given as (key, number of tokens)."""
        return [self._noise.recorders.pop(key).finish(n_tokens) for key, n_tokens in finished]

    def discard_commitments(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._noise.recorders.pop(key, None)


@dataclass(frozen=True, slots=True)
class _Request:
    """A verifiable request. token_ids: vLLM's own list, which grows during sampling."""

    key: str
    seed: int
    temperature: float
    token_ids: list[int]


class CounterBasedNoiseProcessor(LogitsProcessor):
    """A logits processor for verifiable requests. vLLM creates one in each worker process.

    recorders: commitment recorders by request key, also of preempted requests
    """

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        self._requests: dict[int, _Request] = {}  # by row of the batch
        self.recorders: dict[str, CommitmentRecorder] = {}
        self._hidden_BH: Tensor | None = None

    def is_argmax_invariant(self) -> bool:
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        process_dict_updates(self._requests, batch_update, _make_request)

    def apply(self, logits: Tensor) -> Tensor:
        """Add noise to the logits of verifiable requests, and record the chosen tokens' hidden states."""
        rows = sorted(self._requests)
        for temperature in sorted({self._requests[row].temperature for row in rows}):
            same = [row for row in rows if self._requests[row].temperature == temperature]
            for start in range(0, len(same), _MAX_ROWS):
                self._choose_tokens(logits, same[start : start + _MAX_ROWS], temperature)
        self._hidden_BH = None
        return logits

    def record_hidden(self, _head: Any, inputs: tuple[Any, ...]) -> None:
        """Store the hidden states in the inputs of the output layer; called as its forward pre-hook."""
        self._hidden_BH = inputs[1]  # inputs[0] is the layer itself

    def _choose_tokens(self, logits: Tensor, rows: list[int], temperature: float) -> None:
        requests = [self._requests[row] for row in rows]
        seeds, positions = [each.seed for each in requests], [len(each.token_ids) for each in requests]
        _, logp_B, noisy_BV = sample_tokens(logits[rows], temperature, seeds, positions)
        logits[rows] = noisy_BV
        if self._hidden_BH is None:
            raise RuntimeError("vLLM's output layer did not run in this step")
        for row, request, position, logp in zip(rows, requests, positions, logp_B, strict=True):
            self.recorders.setdefault(request.key, CommitmentRecorder()).record(position, self._hidden_BH[row], logp)


def _make_request(parameters: Any, _prompt_ids: list[int] | None, token_ids: list[int]) -> _Request | None:
    given = (parameters.extra_args or {}).get(VERIFIABLE_KEY)
    return None if given is None else _Request(**given, token_ids=token_ids)
