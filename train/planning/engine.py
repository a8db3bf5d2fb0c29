"""How long engines and a learner take, by data sheets or measurements, and an engine that only keeps time.

The engine draws one token for each of its answers in a step, and steps take EngineTimings.
"""

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf, sqrt

_HALF = 2  # bytes of a number in half precision
_BANDWIDTH_SHARE = 0.6  # of a GPU's memory bandwidth that decoding reaches
_PREFILL_SHARE = 0.5  # of its arithmetic that reading a prompt reaches
_TRAINING_SHARE = 0.35  # of its arithmetic that training reaches; prime-rl measures 0.1 to 0.37, by model and length
_STEP_SECONDS = 0.0015  # overhead of one step of an engine
_CACHE_SHARE = 0.9  # of the memory that weights leave, the share for the cache
# For each parameter and token: forward, backward, the forward pass for the proximal policy, and once more forward,
# with activation checkpointing.
_FLOPS = 10
_LOAD_SECONDS = 2.0  # of an engine, for new weights
_PUBLISH_SECONDS = 5.0
_SWITCH_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU as its data sheet describes it; flops are dense and in half precision."""

    name: str
    flops: float
    bandwidth: float  # bytes per second
    memory: float  # bytes


H100 = Gpu("H100 SXM", 989e12, 3.35e12, 80e9)
A100 = Gpu("A100 SXM 80 GB", 312e12, 2.04e12, 80e9)
H200 = Gpu("H200 SXM", 989e12, 4.8e12, 141e9)
GPUS = {"h100": H100, "a100": A100, "h200": H200}


@dataclass(frozen=True, slots=True)
class ModelSize:
    """What of a model decides how long it takes."""

    parameters: float
    kv_bytes_per_token: float  # of one token: 2 * layers * key heads * width of a head * bytes of a number


@dataclass(frozen=True, slots=True)
class EngineTimings:
    """How long one engine takes. A step draws one token for each of its answers."""

    step_seconds: float  # of a step, in addition to
    step_seconds_per_answer: float  # for each answer, and
    step_seconds_per_context_token: float  # for each token of their contexts
    prefill_seconds_per_token: float  # for each token of a prompt, or of a cache that is computed again
    load_seconds: float  # for new weights
    cache_tokens: float  # tokens that the cache holds
    max_concurrent: int = 256  # answers that the engine draws at once


@dataclass(frozen=True, slots=True)
class LearnerTimings:
    """How long the learner takes."""

    seconds_per_token: float  # for each token of a batch, prompts included
    batch_seconds: float  # for each batch, whatever its size
    publish_seconds: float  # from the end of a batch until engines can fetch the weights
    switch_seconds: float = 0.0  # for changing between sampling and training on the same GPUs, there and back


def estimate_engine_timings(model: ModelSize, gpu: Gpu, *, gpus: int) -> EngineTimings:
    """Return the rates of an engine on so many GPUs. Raises ValueError if the model does not fit."""
    bandwidth, weights = gpu.bandwidth * gpus * _BANDWIDTH_SHARE, model.parameters * _HALF
    room = (gpu.memory * gpus - weights) * _CACHE_SHARE
    if room <= 0:
        raise ValueError(f"{model.parameters / 1e9:.3g}B parameters do not fit into {gpus} x {gpu.name}")
    forward_seconds = 2 * model.parameters / (gpu.flops * gpus * _PREFILL_SHARE)
    return EngineTimings(
        step_seconds=weights / bandwidth + _STEP_SECONDS,
        step_seconds_per_answer=forward_seconds,
        step_seconds_per_context_token=model.kv_bytes_per_token / bandwidth,
        prefill_seconds_per_token=forward_seconds,
        load_seconds=_LOAD_SECONDS,
        cache_tokens=room / model.kv_bytes_per_token,
    )


def estimate_learner_timings(model: ModelSize, gpu: Gpu, *, gpus: int) -> LearnerTimings:
    """Return the rates of a learner on so many GPUs."""
    seconds_per_token = _FLOPS * model.parameters / (gpu.flops * gpus * _TRAINING_SHARE)
    return LearnerTimings(seconds_per_token, 0.0, _PUBLISH_SECONDS, _SWITCH_SECONDS)


@dataclass(slots=True)
class SimulatedSample:
    """An answer that is being drawn."""

    key: tuple[int, int, int]
    prompt_tokens: int
    tokens: int
    first_step: float = 0.0
    # The versions that drew it, each with the number of tokens that had been drawn when it began.
    versions: list[tuple[int, int]] = field(default_factory=list)


class TimedEngine:
    """One engine. `advance` lets time pass and returns what has finished; the other methods act at the present."""

    def __init__(self, rates: EngineTimings, *, version: int = 0) -> None:
        self.version = version
        self._rates = rates
        self._now = 0.0
        self._busy_until = 0.0  # new weights or prompts are being computed
        self._steps = 0.0  # steps made since the start
        self._context = 0.0  # tokens in the cache
        # A heap by the step of the last token.
        self._running: list[tuple[float, tuple[int, int, int], SimulatedSample]] = []
        self._waiting: deque[SimulatedSample] = deque()
        self.drawn_tokens = 0.0
        self.busy_seconds = 0.0

    @property
    def n_pending(self) -> int:
        """The number of answers that it has to draw."""
        return len(self._running) + len(self._waiting)

    def add(self, drawing: SimulatedSample) -> None:
        self._waiting.append(drawing)
        self._admit()

    def load_weights(self, version: int) -> None:
        """Load new weights: the cache of what runs is computed again, as when generation is interrupted."""
        self.version = version
        self._busy(self._rates.load_seconds + self._context * self._rates.prefill_seconds_per_token)
        for _, _, drawing in self._running:
            drawn = round(self._steps - drawing.first_step)
            if drawing.versions[-1][1] == drawn:
                drawing.versions[-1] = (version, drawn)
            else:
                drawing.versions.append((version, drawn))

    def next_event(self) -> float:
        """Return when the next answer finishes, if nothing is added until then."""
        if not self._running:
            return inf
        return max(self._now, self._busy_until) + self._seconds(self._running[0][0] - self._steps)

    def advance(self, now: float) -> list[SimulatedSample]:
        """Let time pass until `now`, and return the answers that are finished."""
        finished = []
        while self._running and (at := self.next_event()) <= now + 1e-9:
            self._make_steps(self._running[0][0] - self._steps)
            self._now = max(self._now, at)
            while self._running and self._running[0][0] <= self._steps + 1e-6:
                drawing = heappop(self._running)[2]
                self._context -= drawing.prompt_tokens + drawing.tokens
                finished.append(drawing)
            if not self._running:
                self._context = 0.0  # what rounding has left
            self._admit()
        if now > self._now:
            spare = now - max(self._now, self._busy_until)
            if self._running and spare > 0:
                self._make_steps(self._steps_in(spare))
            self._now = now
        return finished

    def _admit(self) -> None:
        """Begin what waits, as far as slots and the cache have room."""
        while self._waiting and len(self._running) < self._rates.max_concurrent:
            drawing = self._waiting[0]
            if self._running and self._context + drawing.prompt_tokens > self._rates.cache_tokens:
                return
            self._waiting.popleft()
            drawing.first_step = self._steps
            drawing.versions = [(self.version, 0)]
            self._context += drawing.prompt_tokens
            self._busy(drawing.prompt_tokens * self._rates.prefill_seconds_per_token)
            heappush(self._running, (self._steps + drawing.tokens, drawing.key, drawing))

    def _busy(self, seconds: float) -> None:
        self._busy_until = max(self._busy_until, self._now) + seconds
        self.busy_seconds += seconds

    def _make_steps(self, steps: float) -> None:
        self.busy_seconds += self._seconds(steps)
        self._steps += steps
        self._context += steps * len(self._running)
        self.drawn_tokens += steps * len(self._running)

    def _seconds(self, steps: float) -> float:
        """Return how long so many steps take. The context grows by one token for each answer in each of them."""
        linear, square = self._costs()
        return steps * linear + steps * steps * square

    def _steps_in(self, seconds: float) -> float:
        linear, square = self._costs()
        if square == 0:
            return seconds / linear
        return (sqrt(linear * linear + 4 * square * seconds) - linear) / (2 * square)

    def _costs(self) -> tuple[float, float]:
        """Return the seconds of a step, and half of what each step takes longer than the one before."""
        rates, answers, of_context = self._rates, len(self._running), self._rates.step_seconds_per_context_token
        linear = rates.step_seconds + answers * rates.step_seconds_per_answer + self._context * of_context
        return linear, answers * of_context / 2
