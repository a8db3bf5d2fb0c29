"""A slow, bitwise reproducible sampler with transformers, for tests and machines without vLLM.

Completions that begin in the same step form a batch, padded on the left.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, islice
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, AutoTokenizer

from train.errors import SamplerError
from train.sampling.protocol import SampledCompletion, SamplingParams, SeededPrompt
from train.sampling.seeded_sampling import CommitmentRecorder, sample_tokens
from train.sampling.text import NO_ARGUMENTS, TextSampler, truncate_at_stop
from train.weights.checksums import compute_checksum
from train.weights.manifest import SentTensor

_PROMPT_BATCH = 64
_MAX_CONCURRENCY = 1024


@dataclass(slots=True)
class _RunningCompletion:
    key: str
    prompt_ids: tuple[int, ...]
    seed: int
    generator: torch.Generator
    sampling: SamplingParams
    sampled: list[tuple[int, float, int]] = field(default_factory=list)  # token, log-probability, version
    record: CommitmentRecorder = field(default_factory=CommitmentRecorder)
    has_ended: bool = False


@dataclass(slots=True)
class _Batch:
    """A batch of completions: their left-padded tokens, and the KV cache of all but the last token."""

    completions: list[_RunningCompletion]
    ids_BT: Tensor
    mask_BT: Tensor
    cache: Any = None


class TransformersSampler(TextSampler):
    """A sampler of a model in float32. Raises SamplerError if the model cannot be loaded.

    model           folder or Hub id
    context_tokens  maximum number of tokens of prompt and completion together; None: the model's context
    """

    def __init__(
        self, model: str, *, context_tokens: int | None = None, template_arguments: Mapping[str, Any] = NO_ARGUMENTS
    ) -> None:
        try:
            loaded: Any = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
            tokenizer: Any = AutoTokenizer.from_pretrained(model)
        except (OSError, ValueError) as error:
            raise SamplerError(f"transformers cannot load {model}: {error}") from error
        super().__init__(tokenizer, template_arguments, model)
        self._model = loaded.eval()
        self._hidden_BH = torch.empty(0)  # input of the output layer at the last position
        loaded.get_output_embeddings().register_forward_pre_hook(self._record_hidden)
        known = loaded.generation_config.eos_token_id
        self._ends = {tokenizer.eos_token_id, *([known] if isinstance(known, int) else known or ())}
        self._context = context_tokens or loaded.config.max_position_embeddings
        self._version = 0
        self._closed = False
        self.max_concurrency = _MAX_CONCURRENCY
        self._waiting: list[_RunningCompletion] = []  # completions that begin in the next step
        self._batches: list[_Batch] = []
        self._lock = threading.Lock()  # load() and close() may come from other threads

    def sample(
        self, prompts: Iterable[SeededPrompt], sampling: SamplingParams
    ) -> Iterator[tuple[int, SampledCompletion | ValueError]]:
        waiting = enumerate(prompts)
        # Finish a batch before the next one, because the composition of a batch affects the last bits of its logits.
        while batch := list(islice(waiting, _PROMPT_BATCH)):
            yield from self._sample(batch, sampling)

    def add(self, key: str, prompt_ids: tuple[int, ...], seed: int, sampling: SamplingParams) -> None:
        if len(prompt_ids) >= self._context:
            raise ValueError(f"the prompt has {len(prompt_ids)} tokens, but the model's context has {self._context}")
        with self._lock:
            self._waiting.append(
                _RunningCompletion(key, prompt_ids, seed, torch.Generator().manual_seed(seed), sampling)
            )

    def step(self) -> list[tuple[str, SampledCompletion]]:
        with self._lock:
            if self._closed:
                raise SamplerError("the sampler was closed while it was sampling")
            for _, completions in groupby(self._waiting, lambda each: each.sampling):
                while chunk := list(islice(completions, _PROMPT_BATCH)):
                    self._batches.append(self._make_batch(chunk))
            self._waiting = []
            finished = [each for batch in self._batches for each in self._step_batch(batch)]
            self._remove_ended()
        return [(each.key, self._make_completion(each)) for each in finished]

    def abort(self, keys: Iterable[str]) -> None:
        dropped = set(keys)
        with self._lock:
            self._waiting = [each for each in self._waiting if each.key not in dropped]
            for running in (each for batch in self._batches for each in batch.completions):
                running.has_ended = running.has_ended or running.key in dropped
            self._remove_ended()

    @torch.no_grad()
    def compute_logprobs(self, sequences: Sequence[tuple[int, ...]]) -> list[tuple[float, ...]]:
        found = []
        with self._lock:
            for ids_T in map(torch.tensor, sequences):
                logp_TV = self._model(ids_T[None]).logits[0, :-1].float().log_softmax(-1)
                found.append(tuple(logp_TV.gather(1, ids_T[1:, None])[:, 0].tolist()))
        return found

    def cache_use(self) -> float:
        return 0.0

    def load(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        with self._lock:
            # Not strict: files omit tied tensors.
            if unknown := self._model.load_state_dict(dict(weights), strict=False).unexpected_keys:
                raise SamplerError(f"{', '.join(unknown[:3])} are not weights of this model")
            self._version = version
            for batch in self._batches:
                batch.cache = None

    def version(self) -> int:
        return self._version

    def checksums(self, tensors: Sequence[SentTensor]) -> dict[str, str]:
        with self._lock:
            state = self._model.state_dict()
            known = [tensor for tensor in tensors if tensor.name in state]
            return {each.name: compute_checksum(state[each.name].to(getattr(torch, each.dtype))) for each in known}

    def sleep(self) -> None:
        """Do nothing, because the model is on the CPU."""

    def close(self) -> None:
        """Stop sampling before the next step."""
        self._closed = True

    def _remove_ended(self) -> None:
        self._batches = [batch for batch in self._batches if not all(each.has_ended for each in batch.completions)]

    def _make_batch(self, completions: list[_RunningCompletion]) -> _Batch:
        prompts = [torch.tensor(each.prompt_ids, dtype=torch.long) for each in completions]
        pad = partial(pad_sequence, batch_first=True, padding_side="left")
        ids_BT = pad(prompts, padding_value=self._tokenizer.pad_token_id or 0)
        return _Batch(completions, ids_BT, pad([torch.ones_like(ids_T) for ids_T in prompts]))

    @torch.no_grad()
    def _step_batch(self, batch: _Batch) -> list[_RunningCompletion]:
        """Sample a token of each unfinished completion in the batch. Return the completions that finish."""
        position_BT = (batch.mask_BT.cumsum(1) - 1).clamp(min=0)
        new = slice(None) if batch.cache is None else slice(-1, None)
        out = self._model(
            batch.ids_BT[:, new],
            attention_mask=batch.mask_BT,
            position_ids=position_BT[:, new],
            past_key_values=batch.cache,
            use_cache=True,
        )
        batch.cache = out.past_key_values
        next_tokens = self._sample_tokens(batch.completions, out.logits[:, -1].float())
        ids_B1 = torch.zeros(len(batch.completions), 1, dtype=torch.long)
        over = []
        for row, (completion, (token, logprob)) in enumerate(zip(batch.completions, next_tokens, strict=True)):
            if completion.has_ended:
                continue
            sampling = completion.sampling
            ids_B1[row, 0] = token
            completion.sampled.append((token, logprob, self._version))
            is_full = len(completion.sampled) >= min(sampling.max_tokens, self._context - len(completion.prompt_ids))
            text = self._decode([token for token, _, _ in completion.sampled]) if sampling.stop else ""
            if is_full or token in self._ends or any(stop in text for stop in sampling.stop):
                completion.has_ended = True
                over.append(completion)
        batch.ids_BT = torch.cat([batch.ids_BT, ids_B1], 1)
        batch.mask_BT = torch.cat([batch.mask_BT, torch.ones_like(ids_B1)], 1)
        return over

    def _sample_tokens(self, completions: Sequence[_RunningCompletion], logits_BV: Tensor) -> list[tuple[int, float]]:
        """Return a token and its log-probability for each completion; both are meaningless for finished ones."""
        sampling = completions[0].sampling
        if sampling.verifiable:
            seeds, positions = [each.seed for each in completions], [len(each.sampled) for each in completions]
            tokens_B, logp_B, _ = sample_tokens(logits_BV, sampling.temperature, seeds, positions)
            for completion, hidden_H, logp in zip(completions, self._hidden_BH, logp_B, strict=True):
                if not completion.has_ended:
                    completion.record.record(len(completion.sampled), hidden_H, logp)
            return list(zip(tokens_B.tolist(), logp_B.tolist(), strict=True))
        found = []
        for completion, logp_V in zip(completions, _compute_logprobs(logits_BV, sampling), strict=True):
            if sampling.temperature and not completion.has_ended:
                token = int(torch.multinomial(logp_V.exp(), 1, generator=completion.generator))
            else:
                token = int(logp_V.argmax())
            found.append((token, float(logp_V[token])))
        return found

    def _record_hidden(self, _head: Any, inputs: tuple[Tensor, ...]) -> None:
        self._hidden_BH = inputs[0][:, -1]

    def _make_completion(self, running: _RunningCompletion) -> SampledCompletion:
        ids, logprobs, versions = zip(*running.sampled, strict=True)
        whole = self._decode(ids)
        text = truncate_at_stop(whole, running.sampling.stop)
        return SampledCompletion(
            text=text,
            finish_reason="stop" if ids[-1] in self._ends or text != whole else "length",
            n_tokens=len(ids),
            prompt_ids=running.prompt_ids,
            token_ids=ids,
            logprobs=logprobs,
            versions=versions,
            n_prompt_tokens=len(running.prompt_ids),
            commitments=running.record.finish(len(ids))[0] if running.sampling.verifiable else b"",
        )


def _compute_logprobs(logits_BV: Tensor, sampling: SamplingParams) -> Tensor:
    """Return (B, V) log-probabilities after temperature and top_p; at temperature 0, the model's."""
    logp_BV = (logits_BV / (sampling.temperature or 1.0)).log_softmax(1)
    if sampling.top_p < 1:
        sorted_BV, order_BV = logp_BV.sort(1, descending=True)
        before_BV = sorted_BV.exp().cumsum(1) - sorted_BV.exp()
        excluded_BV = torch.zeros_like(logp_BV, dtype=torch.bool).scatter(1, order_BV, before_BV >= sampling.top_p)
        logp_BV = logp_BV.masked_fill(excluded_BV, -torch.inf).log_softmax(1)
    return logp_BV
