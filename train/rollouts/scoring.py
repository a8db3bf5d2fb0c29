"""The rewards that a run's configuration asks for: a weighted sum, computed while further completions are sampled."""

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from rewards.async_rewards import AsyncRewards
from rewards.code import CodeReward
from rewards.format import FormatReward
from rewards.length_budget import LengthBudget
from rewards.overlong import Overlong
from rewards.reward import Answer, Reward, Score, Task
from rewards.weighted import Weighted
from sandbox import Limits, Sandbox, maxima
from sandbox.packages import fingerprint
from train import config
from train.errors import ConfigError

_LEAST_AT_ONCE = 64  # completions that are scored at the same time
_AT_ONCE_PER_WORKER = 3
_UNBOUNDED_MB = 2**24  # more than any machine has, so that its own memory is the bound


@contextmanager
def scoring(
    settings: config.Reward, programs: config.Sandbox, most: config.Most, *, seed: int
) -> Iterator[AsyncRewards]:
    """Yield the configured rewards.

    settings  the rewards and their weights
    programs  where programs run
    most      upper limits for one run
    seed      the seed of random rewards

    Raises ConfigError if there are none, and SandboxError if no sandbox can be opened.
    """
    with ExitStack() as stack:
        parts: list[tuple[float, Score, str]] = []
        at_once = _LEAST_AT_ONCE
        if settings.random:
            parts.append((1.0, _RandomReward(seed), "random"))
        elif settings.code:
            sandbox = stack.enter_context(open_sandbox(programs, most))
            at_once = max(at_once, _AT_ONCE_PER_WORKER * sandbox.workers)
            parts.append((settings.code, _code_reward(sandbox, settings), "code"))
        if settings.format:
            parts.append((settings.format, FormatReward(), "format"))
        if settings.length_budget:
            parts.append((settings.length_budget, LengthBudget(), "length_budget"))
        if settings.overlong:
            parts.append((settings.overlong, Overlong(settings.overlong_buffer_tokens), "overlong"))
        if not parts:
            raise ConfigError("reward: all weights are 0; give reward.code = 1.0")
        yield stack.enter_context(AsyncRewards(Weighted(parts), at_once=at_once))


def _code_reward(sandbox: Sandbox, settings: config.Reward) -> CodeReward:
    return CodeReward(
        sandbox,
        select=settings.select,
        tests=settings.tests,
        least_wall_seconds=settings.least_wall_seconds,
        most_wall_seconds=settings.most_wall_seconds,
        languages=settings.languages,
    )


def open_sandbox(settings: config.Sandbox, most: config.Most) -> Sandbox:
    """Open the sandbox of a run.

    Raises SandboxError, and ConfigError for bounds that make no sense or if the packages are not those of the run.
    """
    box = settings.options().open(most=_bounds(most))
    if settings.packages_sha256 not in ("", fingerprint(box.packages)):
        box.close()
        there = ", ".join(map(str, box.packages)) or "none"
        raise ConfigError(
            f"programs would get other packages than those that the run began with: {there}. Install the same ones, or "
            "choose another --out."
        )
    return box


def _bounds(most: config.Most) -> Limits:
    bounds = {name: bound for name, bound in config.as_table(most).items() if bound}
    try:
        return replace(maxima.of_machine(_UNBOUNDED_MB), **bounds)
    except ValueError as error:
        raise ConfigError(f"most: {error}") from error


class _RandomReward:
    """A control experiment: a reward that does not depend on the answer cannot teach anything."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def __call__(self, answer: Answer, task: Task) -> Reward:
        return Reward(float(self._random.random() < 0.5), "random")
