"""Process-wide sandbox and reward, for trainers that call a plain function."""

import os
import threading
from collections.abc import Callable
from typing import TypeVar

from rewards.async_rewards import AsyncRewards
from rewards.code import CodeReward
from rewards.extract import PYTHON_ONLY
from rewards.reward import Completion, Reward, Task
from rewards.unknown_counter import UnknownRewardCounter
from sandbox import Sandbox, SandboxOptions, Suite

__all__ = [
    "LANGUAGES_VARIABLE",
    "PACKAGES_VARIABLE",
    "URL_VARIABLE",
    "record_and_get_value",
    "reward",
    "options_from_environment",
    "shared_reward",
    "shared_async_rewards",
    "shared_sandbox",
    "get_unknown_count",
]

URL_VARIABLE = (
    "CURATE_URL"  # address of a `curate serve`, if many processes score, or programs may not run on this machine
)
PACKAGES_VARIABLE = "CURATE_PACKAGES"  # names of packages that programs can import, separated by spaces
LANGUAGES_VARIABLE = "CURATE_LANGUAGES"  # languages of programs, separated by spaces; Python if it is not set
_MAX_CONCURRENT = 256  # completions; each takes a thread that only waits
_lock = threading.RLock()
_parts: dict[tuple[int, str], object] = {}  # by process id and name: a fork cannot use its parent's objects

Part = TypeVar("Part")


def shared_sandbox() -> Sandbox:
    """Return the sandbox of this process, which is opened on first use.

    Its options are those of `sandbox_options`. Raises SandboxError if no sandbox can be opened.
    """
    return _shared("sandbox", Sandbox, options_from_environment().open)


def options_from_environment() -> SandboxOptions:
    """Return the options of a sandbox where nobody states them, as the environment says.

    Programs run on the service that CURATE_URL names or, if it is not set, on this machine. They can import the
    packages that CURATE_PACKAGES names.
    """
    url, packages = os.environ.get(URL_VARIABLE, ""), os.environ.get(PACKAGES_VARIABLE, "").split()
    return SandboxOptions("http" if url else "local", url, packages=tuple(packages))


def shared_reward() -> CodeReward:
    """Return the code reward in the shared sandbox. It runs every test of a row, since the export has selected them.

    Programs may be written in the languages that CURATE_LANGUAGES names. Raises SandboxError if no sandbox can be
    opened, and ValueError for a language that does not exist.
    """
    return _shared("reward", CodeReward, lambda: _code_reward(shared_sandbox()))


def shared_async_rewards() -> AsyncRewards:
    """Return the shared reward for many completions at once. Raises SandboxError if no sandbox can be opened."""
    return _shared("rewards", AsyncRewards, lambda: AsyncRewards(shared_reward(), max_concurrent=_MAX_CONCURRENT))


def record_and_get_value(reward: Reward) -> float | None:
    """Return the value of a reward. An unknown reward is None; it is logged and counted for this process.

    No single completion raises an exception. Raises TooManyUnknownRewards, a SandboxError, after many of them.
    """
    _unknowns().record(reward)
    return reward.value


def get_unknown_count() -> int:
    """Return how many rewards of this process were unknown."""
    return _unknowns().count


def reward(completion: str, suite: Suite, box: Sandbox) -> float | None:
    """Return what a completion is worth by all tests of a suite, or None if that is unknown; see
    `record_and_get_value`."""
    return record_and_get_value(_code_reward(box)(Completion(completion, 0), Task(tests=suite)))


def _code_reward(box: Sandbox) -> CodeReward:
    languages = tuple(os.environ.get(LANGUAGES_VARIABLE, "").split()) or PYTHON_ONLY
    return CodeReward(box, select="all", languages=languages)


def _unknowns() -> UnknownRewardCounter:
    return _shared("unknowns", UnknownRewardCounter, UnknownRewardCounter)


def _shared(name: str, kind: type[Part], make: Callable[[], Part]) -> Part:
    key = os.getpid(), name
    with _lock:
        if key not in _parts:
            _parts[key] = make()
        part = _parts[key]
    assert isinstance(part, kind)
    return part
