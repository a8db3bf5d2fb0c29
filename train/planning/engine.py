"""An engine that only keeps time: it draws one token for each of its answers in a step, and steps take
EngineTimings."""

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf, sqrt

from train.planning.timings import EngineTimings


@dataclass(slots=True)
class SimulatedSample:
    """An answer that is being drawn.

    versions  the versions that drew it, each with the number of tokens that had been drawn when it began
    """

    key: tuple[int, int, int]
    prompt_tokens: int
    tokens: int
    first_step: float = 0.0
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
        self.recomputed_tokens = 0.0

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
        self.recomputed_tokens += self._context
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
        rates, answers = self._rates, len(self._running)
        linear = (
            rates.step_seconds
            + answers * rates.step_seconds_per_answer
            + self._context * rates.step_seconds_per_context_token
        )
        return linear, answers * rates.step_seconds_per_context_token / 2
