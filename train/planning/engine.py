"""The speed of engines and learner, and a simulated engine that samples one token per completion and step."""

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
_LOAD_SECONDS = 2.0  # time to load new weights
_PUBLISH_SECONDS = 5.0
_SWITCH_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Gpu:
    """The data sheet of a GPU."""

    name: str
    flops: float  # dense half-precision FLOPs per second
    bandwidth: float  # memory bandwidth in bytes per second
    memory: float  # size of the memory in bytes


H100 = Gpu("H100 SXM", 989e12, 3.35e12, 80e9)
A100 = Gpu("A100 SXM 80 GB", 312e12, 2.04e12, 80e9)
H200 = Gpu("H200 SXM", 989e12, 4.8e12, 141e9)
GPUS = {"h100": H100, "a100": A100, "h200": H200}


@dataclass(frozen=True, slots=True)
class ModelSize:
    """The sizes of a model that determine the speed of engines and learner."""

    parameters: float
    kv_bytes_per_token: float  # 2 * layers * KV heads * head dimension * bytes per number
    forward: Flops
    training: Flops  # with recomputed activations


@dataclass(frozen=True, slots=True)
class EngineTimings:
    """The speed of one engine. A step takes the sum of the first three terms over completions and context tokens."""

    step_seconds: float
    step_seconds_per_completion: float
    step_seconds_per_context_token: float
    prefill_seconds_per_token: float  # for a prompt, or for a cache that is computed again
    load_seconds: float  # time to load new weights
    cache_tokens: float  # capacity of the KV cache
    max_concurrent: int = 256  # maximum number of running completions
    prefill_seconds_per_pair: float = 0.0  # attention time per pair of tokens


@dataclass(frozen=True, slots=True)
class LearnerTimings:
    """The speed of the learner."""

    seconds_per_token: float  # training time per token of prompts and completions
    batch_seconds: float  # fixed time of a batch
    publish_seconds: float  # time from the end of a batch until engines can fetch the weights
    switch_seconds: float = 0.0  # time of both switches between sampling and training on shared GPUs
    seconds_per_pair: float = 0.0  # attention time per pair of tokens


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

    key: tuple[int, int]  # (group number, index in the group)
    prompt_tokens: int
    tokens: int  # final length of the completion
    n_sampled: float = 0.0  # tokens sampled before the latest admission
    first_step: float = 0.0  # engine step of the first token, computed without preemptions
    n_loads: int = 0  # weight loads before the latest admission
    versions: list[tuple[int, int]] = field(
        default_factory=list
    )  # (weight version, number of tokens sampled before its load)


class SimulatedEngine:
    """A simulated engine. Only `advance` moves its clock."""

    def __init__(self, timings: EngineTimings, *, version: int = 0) -> None:
        self.version = version
        self._timings = timings
        self._now = 0.0
        self._busy_until = 0.0  # end of the load or prefill in progress
        self._steps = 0.0  # steps since the start
        self._loads = [(version, 0.0)]  # (loaded version, steps before the load)
        self._context_tokens = 0.0  # tokens in the KV cache
        self._attention_pairs = 0.0  # pairs of context tokens in attention
        self._running: list[tuple[float, tuple[int, int], SimulatedSample]] = []  # heap of (last step, key, sample)
        self._waiting: deque[SimulatedSample] = deque()
        # (time of the next event, steps until then, seconds of these steps); None: not computed yet
        self._next_event: tuple[float, float, float] | None = None
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
        self._add_busy_time(
            self._timings.load_seconds + self._compute_prefill_seconds(self._context_tokens, self._attention_pairs)
        )

    def find_next_event(self) -> float:
        """Return the time at which the next completion finishes or the cache is full."""
        return self._compute_next_event()[0]

    def advance(self, now: float) -> list[SimulatedSample]:
        """Move the clock to `now`, and return the completions that finished."""
        finished = []
        while (following := self._compute_next_event())[0] <= now + 1e-9:
            at, steps, seconds = following
            self._add_steps(steps, seconds)
            self._now = max(self._now, at)
            while self._running and self._running[0][0] <= self._steps + 1e-6:
                finished.append(self._remove(heappop(self._running)[2]))
            if not self._running:
                self._context_tokens = self._attention_pairs = 0.0  # clear rounding errors
            elif self._context_tokens >= self._timings.cache_tokens * (1 - 1e-9):
                self._preempt()
            self._admit()
        if now > self._now:
            spare = now - max(self._now, self._busy_until)
            if self._running and spare > 0:
                self._add_steps(self._compute_steps_within(spare), spare)
            self._now = now
        return finished

    def _admit(self) -> None:
        while self._waiting and len(self._running) < self._timings.max_concurrent:
            sample = self._waiting[0]
            tokens = sample.prompt_tokens + sample.n_sampled
            if self._running and self._context_tokens + tokens > self._timings.cache_tokens * _ADMISSION_SHARE:
                return
            self._waiting.popleft()
            sample.first_step = self._steps - sample.n_sampled
            sample.n_loads = len(self._loads) - 1
            self._change_context(tokens, 1)
            self._add_busy_time(self._compute_prefill_seconds(tokens, tokens * tokens / 2))
            heappush(self._running, (sample.first_step + sample.tokens, sample.key, sample))

    def _preempt(self) -> None:
        """Preempt the youngest completions, like vLLM with a full cache; readmission recomputes their cache."""
        self._running.sort(key=lambda entry: entry[1])
        while len(self._running) > 1 and self._context_tokens > self._timings.cache_tokens * _ADMISSION_SHARE:
            self._waiting.appendleft(self._remove(self._running.pop()[2]))
        heapify(self._running)

    def _remove(self, sample: SimulatedSample) -> SimulatedSample:
        for version, steps in self._loads[sample.n_loads :]:
            sample.versions.append((version, round(max(sample.n_sampled, steps - sample.first_step))))
        sample.n_sampled = self._steps - sample.first_step
        self._change_context(sample.prompt_tokens + sample.n_sampled, -1)
        return sample

    def _change_context(self, tokens: float, sign: int) -> None:
        self._context_tokens += sign * tokens
        self._attention_pairs += sign * tokens * tokens / 2

    def _compute_prefill_seconds(self, tokens: float, pairs: float) -> float:
        return tokens * self._timings.prefill_seconds_per_token + pairs * self._timings.prefill_seconds_per_pair

    def _add_busy_time(self, seconds: float) -> None:
        self._busy_until = max(self._busy_until, self._now) + seconds
        self.busy_seconds += seconds
        self._next_event = None

    def _add_steps(self, steps: float, seconds: float) -> None:
        self.busy_seconds += seconds
        self._steps += steps
        n_sampled = steps * len(self._running)
        self._attention_pairs += steps * (self._context_tokens + n_sampled / 2)
        self._context_tokens += n_sampled
        self._next_event = None

    def _compute_next_event(self) -> tuple[float, float, float]:
        if self._next_event is None:
            if not self._running:
                return inf, 0.0, 0.0
            steps, n_running = self._running[0][0] - self._steps, len(self._running)
            if n_running > 1:  # a single completion is never preempted
                steps = min(steps, max(0.0, (self._timings.cache_tokens - self._context_tokens) / n_running))
            linear, quadratic = self._compute_step_costs()
            seconds = steps * (linear + steps * quadratic)
            self._next_event = max(self._now, self._busy_until) + seconds, steps, seconds
        return self._next_event

    def _compute_steps_within(self, seconds: float) -> float:
        linear, quadratic = self._compute_step_costs()
        if quadratic == 0:
            return seconds / linear
        return (sqrt(linear * linear + 4 * quadratic * seconds) - linear) / (2 * quadratic)

    def _compute_step_costs(self) -> tuple[float, float]:
        """Return a and b of the time for n steps, a * n + b * n**2; the context grows in each step."""
        timings, n_running = self._timings, len(self._running)
        per_context_token = timings.step_seconds_per_context_token
        linear = timings.step_seconds + n_running * timings.step_seconds_per_completion
        linear += self._context_tokens * per_context_token
        return linear, n_running * per_context_token / 2
