"""The rewards of a run, from its configuration: a weighted sum, scored in a sandbox while others are sampled."""

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
from train import config
from train.errors import ConfigError

_AT_ONCE_PER_WORKER = 3
_ENDLESS_MB = 2**24  # the machine has less, which bounds it


@contextmanager
def scoring(settings: config.Reward, most: config.Most, *, seed: int) -> Iterator[AsyncRewards]:
    """Raises ConfigError if nothing is rewarded, SandboxError where there is no sandbox."""
    with ExitStack() as stack:
        parts: list[tuple[float, Score]] = []
        at_once = 64
        if settings.random:
            parts.append((1.0, _Random(seed)))
        elif settings.code:
            box = stack.enter_context(opened_sandbox(settings, most))
            at_once = max(at_once, _AT_ONCE_PER_WORKER * box.workers)
            parts.append(
                (
                    settings.code,
                    CodeReward(
                        box,
                        select=settings.select,
                        tests=settings.tests,
                        least_wall_seconds=settings.least_wall_seconds,
                        most_wall_seconds=settings.most_wall_seconds,
                    ),
                )
            )
        if settings.format:
            parts.append((settings.format, FormatReward()))
        if settings.length_budget:
            parts.append((settings.length_budget, LengthBudget()))
        if settings.overlong:
            parts.append((settings.overlong, Overlong(settings.overlong_buffer_tokens)))
        if not parts:
            raise ConfigError("reward: all weights are 0; give reward.code = 1.0")
        yield stack.enter_context(AsyncRewards(Weighted(parts), at_once=at_once))


def opened_sandbox(settings: config.Reward, most: config.Most) -> Sandbox:
    """Where programs run. Raises SandboxError, and ConfigError for bounds that make no sense."""
    where, workers = settings.sandbox, settings.workers or None
    bounds = _bounds(most)
    if where == "local":
        return Sandbox(workers, most=bounds)
    if where.startswith("ray://"):
        return Sandbox(workers, most=bounds, backend="ray", address=where.removeprefix("ray://"))
    if where.startswith(("http://", "https://")):
        return Sandbox(workers, most=bounds, backend="http", url=where)
    raise ConfigError(f'reward.sandbox: {where!r} is neither "local" nor ray://ADDRESS nor the URL of a `curate serve`')


def _bounds(most: config.Most) -> Limits:
    given = {name: bound for name, bound in config.as_table(most).items() if bound}
    try:
        return replace(maxima.of_machine(_ENDLESS_MB), **given)
    except ValueError as error:
        raise ConfigError(f"most: {error}") from error


class _Random:
    """The control: what knows nothing of the answer cannot teach."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def __call__(self, answer: Answer, task: Task) -> Reward:
        return Reward(float(self._random.random() < 0.5), "random")
