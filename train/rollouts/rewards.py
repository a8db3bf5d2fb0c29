"""A run's rewards: a weighted sum, computed while sampling continues.

reward.function = "module:function" names a custom reward function:

    def brevity(completion: Completion, task: Task) -> Reward | float | None

Many threads call it. None means unknown. An exception ends the run after its last complete step is saved.
"""

import math
import os
import random
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib import import_module
from numbers import Real
from types import ModuleType
from typing import Any

from rewards.async_rewards import AsyncRewards
from rewards.code import CodeReward
from rewards.form import FormatReward, LengthBudgetReward, OverlongPenalty
from rewards.mathematics import MathReward
from rewards.reward import ACCEPTED, Completion, Reward, RewardCallable, Task
from rewards.weighted import WeightedReward
from sandbox import Limits, Sandbox, limit_bounds
from sandbox.packages import compute_fingerprint
from train import config
from train.config.checks import get_function_name
from train.errors import ConfigError, RolloutError
from train.rollouts.prompt_dataset import ProblemKinds

SCORED, UNKNOWN = "scored", "unknown"


class CustomReward:
    """A custom reward function. Raises ConfigError if no such function exists."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._module, self._function = _import_function(name)

    def __call__(self, completion: Completion, task: Task) -> Reward:
        start_time = time.perf_counter()
        try:
            result = self._function(completion, task)
        except (Exception, SystemExit) as error:  # SystemExit would end only this thread, not the run
            raise RolloutError(
                f"reward.function = {self._name!r} failed on a completion of {task.id}: "
                f"{_describe(error, self._module)}. Correct the function, then use --resume. If it "
                "cannot score a completion, return None."
            ) from error
        reward = self._to_reward(result, task)
        return reward if reward.seconds else replace(reward, seconds=time.perf_counter() - start_time)

    def _to_reward(self, result: Any, task: Task) -> Reward:
        if isinstance(result, Reward):
            return result
        if result is None:
            return Reward(None, UNKNOWN, detail=f"{self._name} returned None")
        if isinstance(result, Real) and math.isfinite(result):
            value = float(result)
            return Reward(value, ACCEPTED if value >= 1 else SCORED)
        raise RolloutError(
            f"reward.function = {self._name!r} returned {result!r}"[:300]
            + f" for a completion of {task.id}. It must return "
            "a finite number, a rewards.Reward, or None if the reward is unknown."
        )


def check_custom_reward(name: str) -> None:
    """Raise ConfigError unless `name` is empty or "module:function" of an existing function."""
    if name:
        _import_function(name)


def _import_function(name: str) -> tuple[ModuleType, Callable[[Completion, Task], Any]]:
    module_name, _, function_name = name.partition(":")
    working_folder = os.getcwd()
    if working_folder not in sys.path:
        sys.path.append(working_folder)  # at the end, so a local file does not shadow an installed module
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise ConfigError(
                f"reward.function = {name!r}: there is no module {module_name}, neither in {working_folder} nor "
                "among the installed packages. Start the command in the folder of the module, or install it."
            ) from error
        raise ConfigError(
            f"reward.function = {name!r}: {module_name} cannot be imported: {error}. Install what it imports."
        ) from error
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"reward.function = {name!r}: {module_name} cannot be imported: {_describe(error, None)}. Correct it."
        ) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        names = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise ConfigError(
            f"reward.function = {name!r}: {module.__file__} has no function {function_name}. "
            f"It has {', '.join(names[:8]) or 'none'}."
        )
    return module, function


def _describe(error: BaseException, module: ModuleType | None) -> str:
    """Describe an error, with the innermost line of its traceback in the module; None: in any module."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if module is not None and frame.filename == module.__file__] or frames
    location = f" ({own[-1].filename}, line {own[-1].lineno})" if own and not isinstance(error, SyntaxError) else ""
    return f"{type(error).__name__}: {error}{location}"


_WeightedReward = tuple[float, RewardCallable, str]  # weight, reward function, name

_MIN_CONCURRENT = 64  # minimum bound on completions scored concurrently
_CONCURRENT_PER_WORKER = 3
_UNBOUNDED_MB = 2**24  # above the memory of any machine, so the sandbox's memory is the bound


@contextmanager
def open_scorer(
    settings: config.RewardConfig,
    sandbox_config: config.SandboxConfig,
    max_limits: config.ProgramLimitsConfig,
    *,
    seed: int,
    kinds: ProblemKinds,
    model: RewardCallable | None = None,
) -> Iterator[AsyncRewards]:
    """Open the configured rewards.

    max_limits  upper limits of one program run
    seed        seed of random rewards
    kinds       kinds of problems to score
    model       the reward model; None: load reward.model, if set

    Raises ConfigError if no reward applies to a kind of problem or the reward model cannot be loaded. Raises
    SandboxError if no sandbox can be opened.
    """
    check_scorable(settings, kinds)
    with ExitStack() as stack:
        max_concurrent = _MIN_CONCURRENT
        code: list[_WeightedReward] = []
        if kinds.tests and settings.code and not settings.random:
            sandbox = stack.enter_context(open_sandbox(sandbox_config, max_limits))
            max_concurrent = max(max_concurrent, _CONCURRENT_PER_WORKER * sandbox.workers)
            code.append((settings.code, _build_code_reward(sandbox, settings), "code"))
        math: list[_WeightedReward] = []
        if kinds.answers and settings.math and not settings.random:
            math.append((settings.math, stack.enter_context(_build_math_reward()), "math"))
        learned = [*_load_custom_reward(settings), *_load_reward_model(settings, model, stack)]
        always = list(_build_common_rewards(settings, seed))
        scorers = [
            WeightedReward([*own, *learned, *always]) if own or learned or always else None for own in (code, math, [])
        ]
        yield stack.enter_context(AsyncRewards(_ByKind(*scorers), max_concurrent=max_concurrent))


class _ByKind:
    """A reward that selects the configured rewards by the kind of task."""

    def __init__(
        self, tests: RewardCallable | None, answer: RewardCallable | None, neither: RewardCallable | None
    ) -> None:
        self._tests, self._answer, self._neither = tests, answer, neither

    def __call__(self, completion: Completion, task: Task) -> Reward:
        score = self._tests if task.tests is not None else self._answer if task.expected else self._neither
        assert score is not None  # check_scorable has rejected such kinds
        return score(completion, task)


def check_scorable(settings: config.RewardConfig, kinds: ProblemKinds) -> None:
    """Raise ConfigError if no configured reward scores one of these kinds of problems."""
    judged = bool(settings.function and settings.function_weight) or settings.uses_model or settings.random
    always = settings.format or settings.length_budget or settings.overlong
    if kinds.tests and not (settings.code or judged or always):
        raise ConfigError("reward: all weights are 0; give reward.code = 1.0")
    if kinds.answers and not (settings.math or judged):
        raise ConfigError(
            "reward: the data has prompts with expected answers, but no reward checks answers. "
            "Give reward.math = 1.0, a reward.function or a reward.model"
        )
    if kinds.neither and not judged:
        raise ConfigError(
            "reward: the data has prompts without expected answers, but no reward scores their completions. "
            "Give a reward.function, a reward.model, or a column answer"
        )


def _load_custom_reward(settings: config.RewardConfig) -> Iterator[_WeightedReward]:
    if settings.function and settings.function_weight and not settings.random:
        yield settings.function_weight, CustomReward(settings.function), get_function_name(settings.function)


def _load_reward_model(
    settings: config.RewardConfig, loaded: RewardCallable | None, stack: ExitStack
) -> Iterator[_WeightedReward]:
    if settings.uses_model:
        from train.rollouts.reward_model import RewardModel  # imports torch

        model = loaded or stack.enter_context(RewardModel(settings.model, settings.model_device))
        yield settings.model_weight, model, "model"


def _build_common_rewards(settings: config.RewardConfig, seed: int) -> Iterator[_WeightedReward]:
    """Yield the rewards that apply to every task."""
    if settings.random:
        yield 1.0, _RandomReward(seed), "random"
    if settings.format:
        yield settings.format, FormatReward(), "format"
    if settings.length_budget:
        yield settings.length_budget, LengthBudgetReward(), "length_budget"
    if settings.overlong:
        yield settings.overlong, OverlongPenalty(settings.overlong_buffer_tokens), "overlong"


def _build_math_reward() -> MathReward:
    try:
        return MathReward()
    except ModuleNotFoundError as error:
        raise ConfigError(f"reward.math: {error}") from error


def _build_code_reward(sandbox: Sandbox, settings: config.RewardConfig) -> CodeReward:
    return CodeReward(
        sandbox,
        select=settings.select,
        tests=settings.tests,
        min_test_seconds=settings.min_test_seconds,
        max_test_seconds=settings.max_test_seconds,
        languages=settings.languages,
        labeled_only=settings.fence == "labeled",
    )


def open_sandbox(settings: config.SandboxConfig, max_limits: config.ProgramLimitsConfig) -> Sandbox:
    """Open the sandbox of a run.

    Raises SandboxError, and ConfigError for invalid limits or if the packages differ from those of the run.
    """
    sandbox = settings.to_sandbox_options().open(max_limits=_to_limits(max_limits))
    if settings.packages_sha256 not in ("", compute_fingerprint(sandbox.packages)):
        sandbox.close()
        packages = ", ".join(map(str, sandbox.packages)) or "none"
        raise ConfigError(
            f"the packages for programs have changed since the start of the run; now: {packages}. Install the "
            "original ones, or choose another --out."
        )
    return sandbox


def _to_limits(limits: config.ProgramLimitsConfig) -> Limits:
    bounds = {name: bound for name, bound in config.as_table(limits).items() if bound}
    try:
        return replace(limit_bounds.make_machine_limits(_UNBOUNDED_MB), **bounds)
    except ValueError as error:
        raise ConfigError(f"limits: {error}") from error


class _RandomReward:
    """A random reward, independent of the completion, for control experiments."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def __call__(self, completion: Completion, task: Task) -> Reward:
        return Reward(float(self._random.random() < 0.5), "random")
