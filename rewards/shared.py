"""The reward of trainers that keep nothing for us between two calls: one sandbox for each of their processes."""

import os
import threading
from collections.abc import Callable
from typing import TypeVar

from rewards.async_rewards import AsyncRewards
from rewards.code import CodeReward
from rewards.reward import Answer, Reward, Task
from rewards.unknown import Unknowns
from sandbox import Sandbox, Suite

URL = "CURATE_URL"  # address of a `curate serve`, for where many processes score, or where programs may not run here
_AT_ONCE = 256  # completions; threads that only wait
_lock = threading.RLock()
_made: dict[tuple[int, str], object] = {}  # by process: a fork cannot use its parent's

Part = TypeVar("Part")


def shared_sandbox() -> Sandbox:
    """The sandbox of this process, made when first asked for: a service's, if CURATE_URL names one, else local.

    Raises SandboxError where there is none.
    """
    url = os.environ.get(URL)
    return _once("sandbox", Sandbox, lambda: Sandbox(backend="http", url=url) if url else Sandbox())


def shared_reward() -> CodeReward:
    """The code reward in it, of all tests that a dataset brings: whoever exported it chose them. Raises as above."""
    return _once("reward", CodeReward, lambda: CodeReward(shared_sandbox(), select="all"))


def shared_rewards() -> AsyncRewards:
    """That reward for many completions at once. Raises as above."""
    return _once("rewards", AsyncRewards, lambda: AsyncRewards(shared_reward(), at_once=_AT_ONCE))


def _once(name: str, kind: type[Part], make: Callable[[], Part]) -> Part:
    key = os.getpid(), name
    with _lock:
        if key not in _made:
            _made[key] = make()
        made = _made[key]
    assert isinstance(made, kind)
    return made


def counted(reward: Reward) -> float | None:
    """The value, None where nothing is known, which is counted for this process and logged.

    No single completion raises. Raises SandboxError for a run of many, as unknown.py has it.
    """
    _once("unknowns", Unknowns, Unknowns).note(reward)
    return reward.value


def unknown_count() -> int:
    """Completions that this process found no reward for."""
    return _once("unknowns", Unknowns, Unknowns).count


def reward(completion: str, suite: Suite, box: Sandbox) -> float | None:
    """What a completion is worth by all tests of a suite. None: nothing is known, as `counted` says it."""
    return counted(CodeReward(box, select="all")(Answer(completion, 0), Task(tests=suite)))
