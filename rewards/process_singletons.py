"""One sandbox and one reward per process, for trainers that call a plain function."""

import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from rewards.async_rewards import AsyncRewards
from rewards.code import CodeReward
from rewards.errors import TooManyUnknownRewards
from rewards.extract import PYTHON_ONLY
from rewards.reward import TESTS_FAILED, Reward
from sandbox import Sandbox, SandboxOptions

log = logging.getLogger(__name__)

URL_VARIABLE = "CURATE_URL"  # URL of a `curate serve`, which many scoring processes can share
PACKAGES_VARIABLE = "CURATE_PACKAGES"  # packages that programs may import, separated by spaces
LANGUAGES_VARIABLE = "CURATE_LANGUAGES"  # allowed languages of programs, separated by spaces; unset for Python
_MAX_CONCURRENT = 256  # threads, each with one completion
_MAX_CONSECUTIVE = 50  # maximum number of consecutive unknown rewards
_WINDOW, _MAX_IN_WINDOW = 200, 100  # the last rewards, and the maximum number of unknown ones among them
_lock = threading.RLock()
# By process id and name, because a forked child cannot use its parent's objects.
_singletons: dict[tuple[int, str], object] = {}

Singleton = TypeVar("Singleton")


class UnknownRewardCounter:
    """A thread-safe counter of unknown rewards.

    A completion may cause one unknown reward, which must not stop training. Many unknown rewards indicate that the
    sandbox or the tests are broken.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._window: deque[bool] = deque(maxlen=_WINDOW)
        self._consecutive = 0
        self._count = 0

    @property
    def count(self) -> int:
        return self._count

    def record(self, reward: Reward) -> None:
        """Count a reward; if it is unknown, log the reason.

        Raises TooManyUnknownRewards if the last 50 rewards, or 100 of the last 200, are unknown, including this one.
        """
        unknown = reward.value is None
        with self._lock:
            self._window.append(unknown)
            self._consecutive = self._consecutive + 1 if unknown else 0
            self._count += unknown
            count, consecutive, in_window = self._count, self._consecutive, sum(self._window)
        if not unknown:
            return
        reason = f"{reward.verdict}: {reward.detail}" if reward.detail else reward.verdict
        log.warning("the reward of a completion is unknown (number %d in this process): %s", count, reason)
        if consecutive >= _MAX_CONSECUTIVE:
            raise _make_error(f"the last {consecutive} completions", reward.verdict, reason)
        if in_window >= _MAX_IN_WINDOW:
            raise _make_error(f"{in_window} of the last {_WINDOW} completions", reward.verdict, reason)


def _make_error(completions: str, verdict: str, reason: str) -> TooManyUnknownRewards:
    advice = (
        "The tests of the dataset cannot be used. Build it again with `curate build-dataset`, which verifies them"
        if verdict == TESTS_FAILED
        else "Fix the sandbox first: run `curate doctor`"
    )
    return TooManyUnknownRewards(f"training stopped: the rewards of {completions} are unknown. {advice} ({reason})")


def get_shared_sandbox() -> Sandbox:
    """Return the sandbox of this process. Opens it on first use, with the options in the environment.

    Raises SandboxError if it cannot open a sandbox.
    """
    return _get_singleton("sandbox", Sandbox, read_options_from_environment().open)


def read_options_from_environment() -> SandboxOptions:
    """Return the options of a sandbox in the environment variables CURATE_URL and CURATE_PACKAGES.

    Without CURATE_URL, programs run on this machine.
    """
    url, packages = os.environ.get(URL_VARIABLE, ""), os.environ.get(PACKAGES_VARIABLE, "").split()
    return SandboxOptions("http" if url else "local", url, packages=tuple(packages))


def get_shared_reward() -> CodeReward:
    """Return the code reward of this process, in its shared sandbox.

    It runs all tests of a row, because the export has selected them. CURATE_LANGUAGES has the allowed languages. Raises
    SandboxError if it cannot open a sandbox, and ValueError for an unknown language.
    """
    return _get_singleton("reward", CodeReward, _make_code_reward)


def get_shared_async_rewards() -> AsyncRewards:
    """Return the thread pool of the shared code reward. Raises SandboxError if it cannot open a sandbox."""
    return _get_singleton(
        "rewards", AsyncRewards, lambda: AsyncRewards(get_shared_reward(), max_concurrent=_MAX_CONCURRENT)
    )


def record_and_get_value(reward: Reward) -> float | None:
    """Count a reward, and log it if it is unknown. Return its value; None if unknown.

    Raises TooManyUnknownRewards, a SandboxError, after many unknown rewards in this process.
    """
    _get_counter().record(reward)
    return reward.value


def get_unknown_count() -> int:
    """Return the number of unknown rewards in this process so far."""
    return _get_counter().count


def _make_code_reward() -> CodeReward:
    languages = tuple(os.environ.get(LANGUAGES_VARIABLE, "").split()) or PYTHON_ONLY
    return CodeReward(get_shared_sandbox(), select="all", languages=languages)


def _get_counter() -> UnknownRewardCounter:
    return _get_singleton("unknowns", UnknownRewardCounter, UnknownRewardCounter)


def _get_singleton(name: str, kind: type[Singleton], make: Callable[[], Singleton]) -> Singleton:
    key = os.getpid(), name
    with _lock:
        if key not in _singletons:
            _singletons[key] = make()
        singleton = _singletons[key]
    assert isinstance(singleton, kind)
    return singleton
