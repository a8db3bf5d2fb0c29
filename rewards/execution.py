"""The reward of trainers that keep nothing for us between two calls: one sandbox for each of their processes."""

import os
import threading
from collections.abc import Callable
from typing import TypeVar

from rewards.async_rewards import AsyncRewards
from rewards.code import CodeReward
from rewards.reward import TESTS_FAILED, Answer, Reward, Task
from sandbox import Sandbox, SandboxError, Suite

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


def known(reward: Reward) -> float:
    """The value, for trainers that have no word for "nobody knows". Raises ValueError where nobody can be judged by the
    tests, SandboxError for any other reason: nothing is known then, which is not a zero."""
    if reward.value is None:
        raise (ValueError if reward.verdict == TESTS_FAILED else SandboxError)(reward.detail or reward.verdict)
    return reward.value


def reward(completion: str, suite: Suite, box: Sandbox) -> float:
    """What a completion is worth by all tests of a suite. Raises as `known` does."""
    return known(CodeReward(box, select="all")(Answer(completion, 0), Task(tests=suite)))
