"""What a sampler is: chats in, completions out, each as soon as it is finished.

A model runs in this process (vllm.py; transformers.py for tests), in processes of its own (processes.py) or behind
an address (http.py). Those that a run trains with take new weights.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor

Chat = list[dict[str, str]]
Prompt = tuple[Chat, int]  # the messages, and the seed of this one sample


class SamplerError(Exception):
    """No samples can be had; the message says what to change. Those that have come are good."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn. No top_k, no penalties: neither a server's nor a model's own defaults take part."""

    temperature: float = 0.6  # this and top_p as DeepCoder evaluates
    top_p: float = 0.95
    max_tokens: int = 16384  # of an answer, thinking included
    logprobs: bool = False  # ask for those of the tokens, after temperature and top_p

    def __post_init__(self) -> None:
        if not 0 <= self.temperature <= 2 or not 0 < self.top_p <= 1 or self.max_tokens < 1:
            raise ValueError(f"temperature is 0 to 2, top_p above 0 and at most 1, max_tokens at least 1, not {self}")


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer. finish_reason is "stop" or "length": cut off by max_tokens or by the end of the model's context.
    The ids are what the model read and wrote, never text tokenized again; empty where a server does not tell them."""

    text: str
    finish_reason: str
    n_tokens: int
    prompt_ids: tuple[int, ...] = ()
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()  # of each token, if they were asked for
    versions: tuple[int, ...] = ()  # which weights each token was drawn with; 0 are those that were loaded first


class Sampler(Protocol):
    def sample(self, prompts: Iterable[Prompt], sampling: Sampling) -> Iterator[tuple[int, Completion | ValueError]]:
        """(index, completion) as they finish. `prompts` may be endless: it is read only as far as the model keeps up.

        A prompt that the model cannot take, such as one that is too long, yields a ValueError, and the others go on.
        Raises SamplerError where nothing more can be had.
        """

    def close(self) -> None:
        """Give back what the model holds; a `sample` in progress, in another thread too, ends."""


class TrainedSampler(Sampler, Protocol):
    """A sampler whose weights change while a run trains them. None of these calls comes while it samples."""

    def load(self, weights: Iterable[tuple[str, "Tensor"]], version: int) -> None:
        """Take whole tensors under the names that the model's files have. Raises SamplerError if that fails."""

    def sleep(self) -> None:
        """Lend the memory to the trainer; `load` ends it."""
