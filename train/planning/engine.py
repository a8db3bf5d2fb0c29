"""The speed of engines and a learner, and a simulated engine, which samples one token per completion in each step."""

from collections import deque
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import inf, sqrt

from train.learning.flops import Flops

_HALF_BYTES = 2  # bytes of a number in half precision
_BANDWIDTH_SHARE = 0.6  # share of a GPU's memory bandwidth that decoding reaches
_PREFILL_SHARE = 0.5  # share of a GPU's FLOPS that prefilling reaches
_TRAINING_SHARE = 0.35  # share of a GPU's FLOPS that training reaches; prime-rl measures 0.1 to 0.37
_STEP_SECONDS = 0.0015  # overhead of one step of an engine
_CACHE_SHARE = 0.9  # the KV cache's share of the memory left by weights
_ADMISSION_SHARE = 0.9  # maximum share of the cache at admission; running completions grow into the rest
_LOAD_SECONDS = 2.0  # time in which an engine loads new weights
_PUBLISH_SECONDS = 5.0
_SWITCH_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Gpu:
    """The data sheet of a GPU."""

    name: str
    flops: float  # per second, dense, in half precision
    bandwidth: float  # bytes per second
    memory: float  # bytes


H100 = Gpu("H100 SXM", 989e12, 3.35e12, 80e9)
A100 = Gpu("A100 SXM 80 GB", 312e12, 2.04e12, 80e9)
H200 = Gpu("H200 SXM", 989e12, 4.8e12, 141e9)
GPUS = {"h100": H100, "a100": A100, "h200": H200}


@dataclass(frozen=True, slots=True)
class ModelSize:
    """The sizes of a model that determine the speed of engines and learner."""

    parameters: float
    kv_bytes_per_token: float  # 2 * layers * key heads * width of a head * bytes of a number
    forward: Flops
    training: Flops  # recomputation included


@dataclass(frozen=True, slots=True)
class EngineTimings:
    """The speed of one engine. The first three terms add up to the time of a step."""

    step_seconds: float
    step_seconds_per_completion: float
    step_seconds_per_context_token: float
    prefill_seconds_per_token: float  # of a prompt or a recomputed cache
    load_seconds: float  # to load new weights
    cache_tokens: float  # capacity of the KV cache
    max_concurrent: int = 256  # maximum number of running completions
    prefill_seconds_per_pair: float = 0.0  # additional time per pair of tokens in attention


@dataclass(frozen=True, slots=True)
class LearnerTimings:
    """The speed of the learner."""

    seconds_per_token: float  # of a batch, prompts included
    batch_seconds: float  # fixed time of a batch
    publish_seconds: float  # from the end of a batch until engines can fetch the weights
    switch_seconds: float = 0.0  # of both switches between sampling and training on the same GPUs
    seconds_per_pair: float = 0.0  # additional time per pair of tokens in attention


def estimate_engine_timings(model: ModelSize, gpu: Gpu, *, gpus: int) -> EngineTimings:
    """Estimate the speed of an engine on `gpus` GPUs. Raises ValueError if the model does not fit."""
    bandwidth, weights = gpu.bandwidth * gpus * _BANDWIDTH_SHARE, model.parameters * _HALF_BYTES
    room = (gpu.memory * gpus - weights) * _CACHE_SHARE
    if room <= 0:
        raise ValueError(f"{model.parameters / 1e9:.3g}B parameters do not fit into {gpus} x {gpu.name}")
    of_token, of_prediction, of_pair = (flops / (gpu.flops * gpus * _PREFILL_SHARE) for flops in model.forward)
    return EngineTimings(
        step_seconds=weights / bandwidth + _STEP_SECONDS,
        step_seconds_per_completion=of_token + of_prediction,
        step_seconds_per_context_token=model.kv_bytes_per_token / bandwidth + of_pair,
        prefill_seconds_per_token=of_token,
        load_seconds=_LOAD_SECONDS,
        cache_tokens=room / model.kv_bytes_per_token,
        prefill_seconds_per_pair=of_pair,
    )


def estimate_learner_timings(model: ModelSize, gpu: Gpu, *, gpus: float) -> LearnerTimings:
    of_token, of_prediction, of_pair = (flops / (gpu.flops * gpus * _TRAINING_SHARE) for flops in model.training)
    return LearnerTimings(of_token + of_prediction, 0.0, _PUBLISH_SECONDS, _SWITCH_SECONDS, of_pair)


@dataclass(slots=True)
class SimulatedSample:
    """A completion in progress."""

    key: tuple[int, int]  # number of the group, index in it
    prompt_tokens: int
    tokens: int  # final length
    n_sampled: float = 0.0  # tokens sampled before the latest admission
    first_step: float = 0.0  # the engine's step at the first token, as if never preempted
    n_loads: int = 0  # loads of weights before the latest admission
    versions: list[tuple[int, int]] = field(default_factory=list)  # (version, tokens sampled before it)


class SimulatedEngine:
    """A simulated engine. Only `advance` moves its clock."""

    def __init__(self, rates: EngineTimings, *, version: int = 0) -> None:
        self.version = version
        self._rates = rates
        self._now = 0.0
        self._busy_until = 0.0  # end of the load or prefill in progress
        self._steps = 0.0  # steps since the start
        self._loads = [(version, 0.0)]  # (loaded version, steps before the load)
        self._context = 0.0  # tokens in the cache
        self._pairs = 0.0  # pairs of these tokens in attention
        self._running: list[tuple[float, tuple[int, int], SimulatedSample]] = []  # heap by the step of the last token
        self._waiting: deque[SimulatedSample] = deque()
        # Time of the next event, the steps until then, and their seconds; None if not computed.
        self._next: tuple[float, float, float] | None = None
        self.busy_seconds = 0.0

    @property
    def n_pending(self) -> int:
        return len(self._running) + len(self._waiting)

    def add(self, *samples: SimulatedSample) -> None:
        self._waiting.extend(samples)
        self._admit()

    def load_weights(self, version: int) -> None:
        self.version = version
        self._loads.append((version, self._steps))
        self._add_busy_time(self._rates.load_seconds + self._compute_prefill_seconds(self._context, self._pairs))

    def find_next_event(self) -> float:
        """Return the time at which the next completion finishes or the cache is full."""
        return self._find_next()[0]

    def advance(self, now: float) -> list[SimulatedSample]:
        """Move the clock to `now`, and return the completions that finished."""
        finished = []
        while (following := self._find_next())[0] <= now + 1e-9:
            at, steps, seconds = following
            self._add_steps(steps, seconds)
            self._now = max(self._now, at)
            while self._running and self._running[0][0] <= self._steps + 1e-6:
                finished.append(self._remove(heappop(self._running)[2]))
            if not self._running:
                self._context = self._pairs = 0.0  # clear rounding errors
            elif self._context >= self._rates.cache_tokens * (1 - 1e-9):
                self._preempt()
            self._admit()
        if now > self._now:
            spare = now - max(self._now, self._busy_until)
            if self._running and spare > 0:
                self._add_steps(self._compute_steps_within(spare), spare)
            self._now = now
        return finished

    def _admit(self) -> None:
        while self._waiting and len(self._running) < self._rates.max_concurrent:
            sample = self._waiting[0]
            tokens = sample.prompt_tokens + sample.n_sampled
            if self._running and self._context + tokens > self._rates.cache_tokens * _ADMISSION_SHARE:
                return
            self._waiting.popleft()
            sample.first_step = self._steps - sample.n_sampled
            sample.n_loads = len(self._loads) - 1
            self._change_context(tokens, 1)
            self._add_busy_time(self._compute_prefill_seconds(tokens, tokens * tokens / 2))
            heappush(self._running, (sample.first_step + sample.tokens, sample.key, sample))

    def _preempt(self) -> None:
        """Preempt the youngest completions, as vLLM does if the cache is full; readmission recomputes their cache."""
        self._running.sort(key=lambda entry: entry[1])
        while len(self._running) > 1 and self._context > self._rates.cache_tokens * _ADMISSION_SHARE:
            self._waiting.appendleft(self._remove(self._running.pop()[2]))
        heapify(self._running)

    def _remove(self, sample: SimulatedSample) -> SimulatedSample:
        for version, steps in self._loads[sample.n_loads :]:
            sample.versions.append((version, round(max(sample.n_sampled, steps - sample.first_step))))
        sample.n_sampled = self._steps - sample.first_step
        self._change_context(sample.prompt_tokens + sample.n_sampled, -1)
        return sample

    def _change_context(self, tokens: float, sign: int) -> None:
        self._context += sign * tokens
        self._pairs += sign * tokens * tokens / 2

    def _compute_prefill_seconds(self, tokens: float, pairs: float) -> float:
        return tokens * self._rates.prefill_seconds_per_token + pairs * self._rates.prefill_seconds_per_pair

    def _add_busy_time(self, seconds: float) -> None:
        self._busy_until = max(self._busy_until, self._now) + seconds
        self.busy_seconds += seconds
        self._next = None

    def _add_steps(self, steps: float, seconds: float) -> None:
        self.busy_seconds += seconds
        self._steps += steps
        n_sampled = steps * len(self._running)
        self._pairs += steps * (self._context + n_sampled / 2)
        self._context += n_sampled
        self._next = None

    def _find_next(self) -> tuple[float, float, float]:
        if self._next is None:
            if not self._running:
                return inf, 0.0, 0.0
            steps, n_running = self._running[0][0] - self._steps, len(self._running)
            if n_running > 1:  # a single completion is never preempted
                steps = min(steps, max(0.0, (self._rates.cache_tokens - self._context) / n_running))
            linear, square = self._compute_step_costs()
            seconds = steps * (linear + steps * square)
            self._next = max(self._now, self._busy_until) + seconds, steps, seconds
        return self._next

    def _compute_steps_within(self, seconds: float) -> float:
        linear, square = self._compute_step_costs()
        if square == 0:
            return seconds / linear
        return (sqrt(linear * linear + 4 * square * seconds) - linear) / (2 * square)

    def _compute_step_costs(self) -> tuple[float, float]:
        """Return the seconds of a step, and half of the increase per step due to the growing context."""
        rates, completions, of_context = self._rates, len(self._running), self._rates.step_seconds_per_context_token
        linear = rates.step_seconds + completions * rates.step_seconds_per_completion + self._context * of_context
        return linear, completions * of_context / 2
