"""A model in this process, sampled by transformers alone: slow, simple, and the same to the last bit each time.

It is for tests, and for machines without vLLM. Answers to a batch of prompts are drawn together, padded on the left.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from train.errors import SamplerError
from train.sampling.chat_template import NO_ARGUMENTS, prompt_ids, warn_of_unknown
from train.sampling.protocol import Completion, Sampling, SeededChat

_PROMPTS_AT_ONCE = 64


class TransformersSampler:
    """A model from a folder or from the Hub, in float32. Raises SamplerError if it cannot be loaded.

    most_tokens         maximum number of tokens of prompt and answer together; None: as many as the model takes
    template_arguments  further arguments of the model's chat template
    """

    def __init__(
        self, model: str, *, most_tokens: int | None = None, template_arguments: Mapping[str, Any] = NO_ARGUMENTS
    ) -> None:
        try:
            loaded: Any = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
            self._tokenizer: Any = AutoTokenizer.from_pretrained(model)
        except (OSError, ValueError) as error:
            raise SamplerError(f"transformers cannot load {model}: {error}") from error
        warn_of_unknown(self._tokenizer, template_arguments, model)
        self._template_arguments = template_arguments
        self._model = loaded.eval()
        known = self._model.generation_config.eos_token_id
        self._ends = {self._tokenizer.eos_token_id, *([known] if isinstance(known, int) else known or ())}
        self._context = most_tokens or self._model.config.max_position_embeddings
        self._version = 0
        self._closed = False

    def sample(
        self, prompts: Iterable[SeededChat], sampling: Sampling
    ) -> Iterator[tuple[int, Completion | ValueError]]:
        """Yield (index, completion) as completions finish; see train/sampling/protocol.py."""
        waiting = enumerate(prompts)
        while batch := list(islice(waiting, _PROMPTS_AT_ONCE)):
            if self._closed:
                raise SamplerError("the sampler was closed while it had work")
            fitting = []
            for index, (chat, seed) in batch:
                ids = prompt_ids(self._tokenizer, chat, self._template_arguments)
                if len(ids) < self._context:
                    fitting.append((index, ids, seed))
                else:
                    yield index, ValueError(f"the prompt has {len(ids)} tokens, the model takes {self._context}")
            if fitting:
                yield from self._draw(fitting, sampling)

    def load(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Load whole tensors under their names in the model's files; see train/sampling/protocol.py."""
        # Not strict: files leave out tensors that are tied to others.
        if unknown := self._model.load_state_dict(dict(weights), strict=False).unexpected_keys:
            raise SamplerError(f"{', '.join(unknown[:3])} are not weights of this model")
        self._version = version

    def sleep(self) -> None:
        """Do nothing: there is no memory to lend."""

    def close(self) -> None:
        """Stop sampling before the next batch."""
        self._closed = True

    @torch.no_grad()
    def _draw(self, asked: list[tuple[int, list[int], int]], sampling: Sampling) -> Iterator[tuple[int, Completion]]:
        longest = max(len(ids) for _, ids, _ in asked)
        ids_BT = torch.tensor([[self._tokenizer.pad_token_id or 0] * (longest - len(ids)) + ids for _, ids, _ in asked])
        mask_BT = torch.tensor([[0] * (longest - len(ids)) + [1] * len(ids) for _, ids, _ in asked])
        position_BT = (mask_BT.cumsum(1) - 1).clamp(min=0)
        generators = [torch.Generator().manual_seed(seed) for _, _, seed in asked]
        drawn: list[list[tuple[int, float]]] = [[] for _ in asked]
        going = set(range(len(asked)))
        cache = None
        while going:
            out = self._model(
                ids_BT, attention_mask=mask_BT, position_ids=position_BT, past_key_values=cache, use_cache=True
            )
            cache = out.past_key_values
            logp_BV = _log_probabilities(out.logits[:, -1].float(), sampling)
            ids_B1 = torch.zeros(len(asked), 1, dtype=torch.long)
            for row in sorted(going):
                token = int(_choice(logp_BV[row], generators[row], sampling.temperature))
                ids_B1[row, 0] = token
                drawn[row].append((token, float(logp_BV[row, token])))
                full = len(drawn[row]) >= min(sampling.max_tokens, self._context - len(asked[row][1]))
                if full or token in self._ends:
                    going.discard(row)
                    yield asked[row][0], self._completion(asked[row][1], drawn[row])
            ids_BT, position_BT = ids_B1, position_BT[:, -1:] + 1
            mask_BT = torch.cat([mask_BT, torch.ones(len(asked), 1, dtype=torch.long)], 1)

    def _completion(self, prompt_ids: list[int], drawn: list[tuple[int, float]]) -> Completion:
        ids = tuple(token for token, _ in drawn)
        return Completion(
            text=self._tokenizer.decode(ids, skip_special_tokens=True),
            finish_reason="stop" if ids[-1] in self._ends else "length",
            n_tokens=len(ids),
            prompt_ids=tuple(prompt_ids),
            token_ids=ids,
            logprobs=tuple(logprob for _, logprob in drawn),
            versions=(self._version,) * len(ids),
        )


def _log_probabilities(logits_BV: Tensor, sampling: Sampling) -> Tensor:
    """Return (B, V) log-probabilities after temperature and top_p. At temperature 0 they are those of the model."""
    logp_BV = (logits_BV / (sampling.temperature or 1.0)).log_softmax(1)
    if sampling.top_p < 1:
        sorted_BV, order_BV = logp_BV.sort(1, descending=True)
        before_BV = sorted_BV.exp().cumsum(1) - sorted_BV.exp()
        left_out_BV = torch.zeros_like(logp_BV, dtype=torch.bool).scatter(1, order_BV, before_BV >= sampling.top_p)
        logp_BV = logp_BV.masked_fill(left_out_BV, -torch.inf).log_softmax(1)
    return logp_BV


def _choice(logp_V: Tensor, generator: torch.Generator, temperature: float) -> Tensor:
    return torch.multinomial(logp_V.exp(), 1, generator=generator) if temperature else logp_V.argmax()
