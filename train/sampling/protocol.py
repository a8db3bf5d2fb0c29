"""Samplers, engines, and the types that they take and return: prompts in, completions out, each as soon as finished."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

from curate.prompt import Chat

if TYPE_CHECKING:
    from torch import Tensor

    from train.weights.manifest import Probe, SentTensor

# What a model is given: messages, a text, or the ids of tokens. It answers the messages of a user, and it continues
# everything else: a text, tokens, and messages of which the last is the beginning of its own answer (a prefill).
Prompt = Chat | str | tuple[int, ...]
SeededPrompt = tuple[Prompt, int]  # with the seed of this one sample


def is_prefilled(prompt: Prompt) -> bool:
    """Return whether the prompt is a chat that ends with the beginning of the answer."""
    return isinstance(prompt, list) and bool(prompt) and prompt[-1]["role"] == "assistant"


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How tokens are drawn. There is no top_k and no penalty; such defaults of servers and models are switched off."""

    temperature: float = 0.6  # this and top_p are those of DeepCoder's evaluation
    top_p: float = 0.95
    max_tokens: int = 16384  # maximum length of an answer, thinking included
    logprobs: bool = False  # whether to return log-probabilities of the tokens, after temperature and top_p
    stop: tuple[str, ...] = ()  # an answer ends before the first of these texts
    verifiable: bool = False  # whether others can check the answers; see seeded_sampling.py and commitment.py

    def __post_init__(self) -> None:
        if not 0 <= self.temperature <= 2 or not 0 < self.top_p <= 1 or self.max_tokens < 1:
            raise ValueError(f"temperature must be 0 to 2, top_p above 0 up to 1, max_tokens at least 1, not {self}")
        if not all(self.stop):
            raise ValueError("an empty text cannot end an answer")
        if self.verifiable and (self.top_p < 1 or self.stop):
            raise ValueError("answers that others check are drawn with top_p = 1 and without stops")

    def as_table(self) -> dict[str, Any]:
        """Return JSON values. Options that came later are left out while they have no effect."""
        table = asdict(self)
        stop, verifiable = table.pop("stop"), table.pop("verifiable")
        if stop:
            table["stop"] = list(stop)
        return {**table, "verifiable": True} if verifiable else table


@dataclass(frozen=True, slots=True)
class SampledCompletion:
    """One answer.

    finish_reason is "stop", or "length" if max_tokens or the end of the model's context cut it off. The ids are those
    that the model read and wrote, never text tokenized again. They are empty if a server hides them. Those of a text
    that ends an answer (SamplingParams.stop) are among them, but the text is not.
    """

    text: str
    finish_reason: str
    n_tokens: int
    prompt_ids: tuple[int, ...] = ()
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()  # one for each token, if SamplingParams.logprobs
    versions: tuple[int, ...] = ()  # version of the weights with which each token was drawn, from 0
    reasoning: str = ""  # what a server returns apart from the answer; its tokens count in n_tokens
    n_prompt_tokens: int = 0  # 0: a server does not tell
    commitments: bytes = b""  # if SamplingParams.verifiable: to the hidden states behind the tokens


class Sampler(Protocol):
    """A model that answers prompts."""

    def sample(
        self, prompts: Iterable[SeededPrompt], sampling: SamplingParams
    ) -> Iterator[tuple[int, SampledCompletion | ValueError]]:
        """Yield (index of the prompt, completion) as completions finish.

        `prompts` may be endless: it is read only as far as the model keeps up. For a prompt that the model cannot take,
        such as one that is too long, a ValueError is yielded, and the others go on. Raises SamplerError if no further
        samples can be drawn.
        """

    def close(self) -> None:
        """Free the model's memory. This ends a call of `sample` that is in progress, even in another thread."""


class Engine(Protocol):
    """A model that draws tokens step by step, for many answers at once, and takes new weights between two steps.

    One thread calls add, step and abort; `load` may be called by another thread at any time.
    """

    max_concurrency: int  # further answers would only wait in the engine

    def add(self, key: str, prompt_ids: tuple[int, ...], seed: int, sampling: SamplingParams) -> None:
        """Begin an answer. Raises ValueError if the model cannot take the prompt."""

    def step(self) -> list[tuple[str, SampledCompletion]]:
        """Draw the next tokens, and return the answers that are finished, by their keys. Raises SamplerError."""

    def abort(self, keys: Iterable[str]) -> None:
        """Forget answers that have begun."""

    def load(self, weights: Iterable[tuple[str, "Tensor"]], version: int) -> None:
        """Load whole tensors under the names that the model's files have.

        Answers that have begun go on under the new weights: what was cached under the old ones is computed again, and
        `SampledCompletion.versions` says which token was drawn with which version. Raises SamplerError if that fails.
        """

    def logprobs(self, sequences: Sequence[tuple[int, ...]]) -> list[tuple[float, ...]]:
        """Return the log-probability, before temperature, of every token but the first of each sequence.

        Answers that have begun may go on meanwhile; those that finish are returned by the next `step`.
        """

    def version(self) -> int:
        """Return the version of the weights that the engine itself reports."""

    def checksums(self, tensors: "Sequence[SentTensor]") -> "Mapping[str, str]":
        """Return the checksums of what the engine computes with, by the names of these tensors.

        Left out are tensors that it keeps in a way that cannot be compared.
        """

    def cache_use(self) -> float:
        """Return the share of the cache that is in use; 0 if it is not known."""

    def close(self) -> None:
        """Free the model's memory."""


class UpdatableSampler(Sampler, Protocol):
    """A sampler whose weights change while a run trains them. None of these methods is called while it samples."""

    def update_weights(
        self, weights: "Iterable[tuple[str, Tensor]]", version: int, probe: "Probe | None", max_error: float
    ) -> dict[str, float]:
        """Load whole tensors under the names that the model's files have, and prove that they have arrived.

        Returns the metrics of the proof; see train/sampling/proof.py. Raises ParityError if the sampler holds anything
        else than what was sent, and SamplerError if it does not load the weights.
        """

    def sleep(self) -> None:
        """Lend the memory to the learner until new weights are handed over."""
