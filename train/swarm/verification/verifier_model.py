"""Recomputation of completions by a prefill of the run's model in torch, on the GPU if there is one.

Letters in names are shapes: B completions, L tokens of a padded sequence, T tokens, H hidden size, V vocabulary.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from train.asynchronous.messages import Lease
from train.errors import SamplerError
from train.sampling.commitment import Bfloat16Bits
from train.sampling.engine_spec import EngineSpec
from train.sampling.protocol import SampledCompletion

if TYPE_CHECKING:
    from torch import Tensor

Float32Array = NDArray[np.float32]

_TOKEN_BATCH = 16384  # tokens of a batch, padding included
_LOGITS_BATCH = 2**25  # logits at a time; noise takes a multiple of their memory
_TOLERANCE = 1e-3  # of float32 logits, for the check that the output layer is a single matrix product


@dataclass(frozen=True, slots=True)
class Recomputation:
    """The verifier's recomputation of one completion; a row for each token.

    hidden_TH  inputs of the output layer, in bfloat16
    logprobs   of the tokens, after temperature
    margins    difference between the token's noisy logit and the largest, in nats: 0 if the seed reproduces the token
    """

    hidden_TH: Bfloat16Bits
    logprobs: Float32Array
    margins: Float32Array

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.logprobs).all() and np.isfinite(self.margins).all())


@dataclass(frozen=True, slots=True)
class CompletionToVerify:
    """A finished completion, and the sampling parameters of its lease."""

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    temperature: float
    seed: int


class VerifierModel:
    """A model from a folder or the Hub, which recomputes completions.

    dtype          "float32" or "bfloat16", as on the nodes
    exact_head     whether the output layer computes in float32 regardless of dtype
    end_token_ids  ids of tokens that end a completion
    vocabulary     number of token ids of the model

    Raises SamplerError if the model cannot be loaded, or transforms its logits.
    """

    def __init__(self, model: str | Path, dtype: str = "float32", *, exact_head: bool = False) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        path = str(Path(model).expanduser())
        device = f"cuda:{torch.cuda.current_device()}" if torch.cuda.is_available() else "cpu"
        try:
            loaded: Any = AutoModelForCausalLM.from_pretrained(path, dtype=getattr(torch, dtype))
            tokenizer: Any = AutoTokenizer.from_pretrained(path)
        except (OSError, ValueError) as error:
            raise SamplerError(f"transformers cannot load {model}: {error}") from error
        eos = loaded.generation_config.eos_token_id
        self.end_token_ids = frozenset({tokenizer.eos_token_id, *([eos] if isinstance(eos, int) else eos or ())})
        self._model, self._exact_head = loaded.to(device).eval(), exact_head
        self.vocabulary = min(
            len(layer.weight) for layer in (loaded.get_input_embeddings(), loaded.get_output_embeddings())
        )
        self._check_head(path)

    @classmethod
    def from_spec(cls, spec: EngineSpec) -> "VerifierModel":
        """Load the verifier's model of a run, in the precision of the run's engines."""
        if spec.kind == "transformers":
            return cls(spec.model)
        head = spec.vllm.get("hf_overrides", {}).get("head_dtype")
        return cls(spec.model, spec.vllm.get("dtype", "bfloat16"), exact_head=head == "float32")

    def load(self, files: Sequence[Path]) -> None:
        """Load safetensors files with the model's tensor names. Raises SamplerError for unknown tensors."""
        import torch

        from train.weights.source import TensorFiles

        with torch.no_grad():
            # Not strict: files omit tied tensors.
            unknown = self._model.load_state_dict(dict(TensorFiles(tuple(files))), strict=False).unexpected_keys
        if unknown:
            raise SamplerError(f"{', '.join(unknown[:3])} are not weights of this model")

    def recompute_lease(self, completions: Sequence[SampledCompletion], lease: Lease) -> list[Recomputation]:
        temperature = lease.sampling_params.temperature
        return self.recompute_many(
            [
                CompletionToVerify(lease.prompt, completion.token_ids, temperature, seed)
                for completion, seed in zip(completions, lease.seeds, strict=True)
            ]
        )

    def recompute(
        self, prompt_ids: tuple[int, ...], token_ids: tuple[int, ...], temperature: float, seed: int
    ) -> Recomputation:
        return self.recompute_many([CompletionToVerify(prompt_ids, token_ids, temperature, seed)])[0]

    def recompute_many(self, completions: Sequence[CompletionToVerify]) -> list[Recomputation]:
        """Recompute completions of at least one token each, in batches of similar lengths."""
        results: dict[int, Recomputation] = {}
        for numbers in _batch_by_length(
            [len(completion.prompt_ids) + len(completion.token_ids) for completion in completions]
        ):
            batch = [completions[number] for number in numbers]
            results |= zip(numbers, self._recompute_batch(batch), strict=True)
        return [results[number] for number in range(len(completions))]

    def _recompute_batch(self, completions: Sequence[CompletionToVerify]) -> list[Recomputation]:
        import torch

        sequences = [[*completion.prompt_ids, *completion.token_ids] for completion in completions]
        longest = max(map(len, sequences))
        # padded on the right, so no token attends to the padding
        ids_BL = torch.tensor([ids + [0] * (longest - len(ids)) for ids in sequences], device=self._model.device)
        with torch.inference_mode():
            hidden_BLH = self._model.get_decoder()(input_ids=ids_BL, use_cache=False).last_hidden_state
            recomputations = []
            for completion, hidden_LH in zip(completions, hidden_BLH, strict=True):
                first, n_tokens = len(completion.prompt_ids) - 1, len(completion.token_ids)
                recomputations.append(self._recompute_completion(completion, hidden_LH[first : first + n_tokens]))
        return recomputations

    def _recompute_completion(self, completion: CompletionToVerify, hidden_TH: "Tensor") -> Recomputation:
        import torch

        from train.sampling.seeded_sampling import get_bfloat16_bits, sample_tokens

        tokens_T1 = torch.tensor(completion.token_ids, device=hidden_TH.device)[:, None]
        logprobs, margins = [], []
        rows = max(1, _LOGITS_BATCH // self.vocabulary)
        for start in range(0, len(hidden_TH), rows):
            logits_TV, tokens = self._compute_logits(hidden_TH[start : start + rows]), tokens_T1[start : start + rows]
            positions = range(start, start + len(tokens))
            _, _, noisy_TV = sample_tokens(
                logits_TV, completion.temperature, [completion.seed] * len(tokens), positions
            )
            margins.append(noisy_TV.max(1).values - noisy_TV.gather(1, tokens)[:, 0])
            scaled_TV = logits_TV / (completion.temperature or 1.0)
            logprobs.append(scaled_TV.gather(1, tokens)[:, 0] - scaled_TV.logsumexp(1))
        return Recomputation(
            get_bfloat16_bits(hidden_TH), _to_numpy(torch.cat(logprobs)), _to_numpy(torch.cat(margins))
        )

    def _compute_logits(self, hidden_TH: "Tensor") -> "Tensor":
        import torch.nn.functional as F

        head = self._model.get_output_embeddings()
        if not self._exact_head:
            logits: Tensor = head(hidden_TH).float()
            return logits
        bias = None if getattr(head, "bias", None) is None else head.bias.float()
        return F.linear(hidden_TH.float(), head.weight.float(), bias)

    def _check_head(self, model: str) -> None:
        """Raise SamplerError unless logits are the product of hidden states and the output layer."""
        import torch

        ids_BL = torch.arange(1, 9, device=self._model.device)[None] % self.vocabulary
        with torch.inference_mode():
            hidden_LH = self._model.get_decoder()(input_ids=ids_BL, use_cache=False).last_hidden_state[0]
            logits_LV, product_LV = (
                self._model(ids_BL).logits[0].float(),
                self._model.get_output_embeddings()(hidden_LH),
            )
        scale = _TOLERANCE if self._model.dtype == torch.float32 else 0.05
        if not torch.allclose(product_LV.float(), logits_LV, atol=scale, rtol=scale):
            raise SamplerError(f"{model} changes its logits after the output layer, which verifiers do not repeat")


def _to_numpy(tensor: "Tensor") -> Any:
    return tensor.float().cpu().numpy().astype(np.float32)


def _batch_by_length(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield batches of indices of sequences with similar lengths, within _TOKEN_BATCH tokens."""
    batch: list[int] = []
    for number in sorted(range(len(lengths)), key=lambda number: lengths[number]):
        if batch and (len(batch) + 1) * lengths[number] > _TOKEN_BATCH:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch
