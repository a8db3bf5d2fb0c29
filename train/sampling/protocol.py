"""The interfaces and types of samplers and engines."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

from curate.prompt import Chat

if TYPE_CHECKING:
    from torch import Tensor

    from train.weights.manifest import Probe, SentTensor

# A chat, a text, or token ids. A chat may end with the beginning of the assistant message (a prefill). The model
# continues prefills, texts and token ids.
Prompt = Chat | str | tuple[int, ...]
SeededPrompt = tuple[Prompt, int]  # prompt and seed of one sample


def is_prefilled(prompt: Prompt) -> bool:
    """Return whether the prompt is a chat that ends with a prefill."""
    return isinstance(prompt, list) and bool(prompt) and prompt[-1]["role"] == "assistant"


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Sampling options of an engine.

    Samplers disable top_k and penalties, even if they are defaults of the server or the model.
    """

    temperature: float = 0.6  # temperature and top_p as in DeepCoder's evaluation
    top_p: float = 0.95
    max_tokens: int = 16384  # maximum length of a completion, thinking included
    logprobs: bool = False  # whether to return log-probabilities of the tokens, after temperature and top_p
    stop: tuple[str, ...] = ()  # a completion ends before the first of these texts
    verifiable: bool = False  # whether verifiers can check completions; see seeded_sampling.py and commitment.py

    def __post_init__(self) -> None:
        if not 0 <= self.temperature <= 2 or not 0 < self.top_p <= 1 or self.max_tokens < 1:
            raise ValueError(f"temperature must be 0 to 2, top_p above 0 up to 1, max_tokens at least 1, not {self}")
        if not all(self.stop):
            raise ValueError("a stop must not be an empty text")
        if self.verifiable and (self.top_p < 1 or self.stop):
            raise ValueError("verifiable completions need top_p = 1 and no stops")

    def as_table(self) -> dict[str, Any]:
        """Return the options as JSON values. Omits newer options at their defaults, so old fingerprints stay valid."""
        table = asdict(self)
        stop, verifiable = table.pop("stop"), table.pop("verifiable")
        if stop:
            table["stop"] = list(stop)
        return {**table, "verifiable": True} if verifiable else table


@dataclass(frozen=True, slots=True)
class SampledCompletion:
    """One completion. Token ids are as the model sampled them, not re-tokenized; empty if a server omits them."""

    text: str  # without the text of SamplingParams.stop that ended it
    finish_reason: str  # "stop", or "length" if max_tokens or the end of the context truncated it
    n_tokens: int
    prompt_ids: tuple[int, ...] = ()
    token_ids: tuple[int, ...] = ()  # including those of the stop
    logprobs: tuple[float, ...] = ()  # one per token, if SamplingParams.logprobs
    versions: tuple[int, ...] = ()  # version of the weights that sampled each token, from 0
    reasoning: str = ""  # thinking, if a server returns it separately; counted in n_tokens
    n_prompt_tokens: int = 0  # 0 if unknown
    commitments: bytes = b""  # commitments to the hidden states, if SamplingParams.verifiable


class Sampler(Protocol):
    """A model that completes prompts."""

    def sample(
        self, prompts: Iterable[SeededPrompt], sampling: SamplingParams
    ) -> Iterator[tuple[int, SampledCompletion | ValueError]]:
        """Yield (index of the prompt, completion) as completions finish.

        Reads `prompts` lazily, so they may be infinite. Yields a ValueError for a prompt that the model refuses, for
        example because it is too long. Raises SamplerError if sampling fails.
        """

    def close(self) -> None:
        """Free the model's memory, and end a call of `sample` in progress. Thread-safe."""


class Engine(Protocol):
    """A model that samples many completions token by token, and loads new weights between two steps.

    One thread calls `add`, `step` and `abort`. Any thread may call `load` at any time.
    """

    max_concurrency: int  # maximum number of completions in progress; the engine queues the rest

    def add(self, key: str, prompt_ids: tuple[int, ...], seed: int, sampling: SamplingParams) -> None:
        """Begin a completion. Raises ValueError if the model refuses the prompt."""

    def step(self) -> list[tuple[str, SampledCompletion]]:
        """Sample the next tokens, and return finished completions with their keys. Raises SamplerError."""

    def abort(self, keys: Iterable[str]) -> None:
        """Abort completions in progress."""

    def load(self, weights: Iterable[tuple[str, "Tensor"]], version: int) -> None:
        """Load full tensors under their names in the model's files.

        Completions in progress continue with the new weights and a recomputed cache. Raises SamplerError if that fails.
        """

    def compute_logprobs(self, sequences: Sequence[tuple[int, ...]]) -> list[tuple[float, ...]]:
        """Return the log-probability, before temperature, of every token but the first of each sequence.

        Completions in progress may continue meanwhile. The next `step` returns those that finish.
        """

    def version(self) -> int:
        """Return the weight version that the engine reports."""

    def checksums(self, tensors: "Sequence[SentTensor]") -> "Mapping[str, str]":
        """Return the checksums of the engine's own copies of these tensors, by name.

        Omits tensors whose layout is unknown.
        """

    def cache_use(self) -> float:
        """Return the used share of the KV cache; 0 if unknown."""

    def close(self) -> None:
        """Free the model's memory."""


class UpdatableSampler(Sampler, Protocol):
    """A sampler whose weights change during a run. None of these methods is called while it samples."""

    def update_weights(
        self, weights: "Iterable[tuple[str, Tensor]]", version: int, probe: "Probe | None", max_error: float
    ) -> dict[str, float]:
        """Load full tensors under their names in the model's files, and return the metrics of their proof (proof.py).

        Raises ParityError if the loaded weights differ, and SamplerError if they cannot be loaded.
        """

    def sleep(self) -> None:
        """Free the GPU memory for the learner until the next `update_weights`."""
