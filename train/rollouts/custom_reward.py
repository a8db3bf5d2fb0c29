"""A reward function of one's own: reward.function = "module:function" in the configuration of a run.

    def brevity(answer: Answer, task: Task) -> Reward | float | None

It is called by many threads at once. None says that nothing is known about the answer. An exception is a mistake in the
function, so it ends the run, with words; the last whole step is kept.
"""

import math
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from numbers import Real
from types import ModuleType
from typing import Any

from rewards.reward import ACCEPTED, Completion, Reward, Task
from train.errors import ConfigError, RolloutError

SCORED, UNKNOWN = "scored", "unknown"


class CustomReward:
    """Calls the function that a configuration names. Raises ConfigError if there is no such function."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._module, self._function = _resolved(name)

    def __call__(self, answer: Completion, task: Task) -> Reward:
        start_time = time.perf_counter()
        try:
            made = self._function(answer, task)
        except (Exception, SystemExit) as error:  # a function that ends the program would end a thread only
            raise RolloutError(
                f"reward.function = {self._name!r} failed on an answer to {task.id}: {_said(error, self._module)}. "
                "Correct the function, then --resume. For an answer that it cannot score, it returns None."
            ) from error
        reward = self._reward(made, task)
        return reward if reward.seconds else replace(reward, seconds=time.perf_counter() - start_time)

    def _reward(self, made: Any, task: Task) -> Reward:
        if isinstance(made, Reward):
            return made
        if made is None:
            return Reward(None, UNKNOWN, detail=f"{self._name} returned None")
        if isinstance(made, Real) and math.isfinite(made):
            value = float(made)
            return Reward(value, ACCEPTED if value >= 1 else SCORED)
        raise RolloutError(
            f"reward.function = {self._name!r} returned {made!r}"[:300]
            + f" for an answer to {task.id}. It must return "
            "a finite number, a rewards.Reward, or None if nothing is known."
        )


def check_custom_reward(name: str) -> None:
    """Raise ConfigError if there is no function of this name, "module:function"; empty: none is wanted."""
    if name:
        _resolved(name)


def _resolved(name: str) -> tuple[ModuleType, Callable[[Completion, Task], Any]]:
    module_name, _, function_name = name.partition(":")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)  # at the end, so that no file here takes the place of an installed module
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise ConfigError(
                f"reward.function = {name!r}: there is no module {module_name}, neither in {here} nor among the "
                "installed packages. Start the command in the folder of the module, or install it."
            ) from error
        raise ConfigError(f"reward.function = {name!r}: {module_name} cannot be imported: {error}.") from error
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"reward.function = {name!r}: {module_name} cannot be imported: {_said(error, None)}. Correct it."
        ) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        own = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise ConfigError(
            f"reward.function = {name!r}: {module.__file__} has no function {function_name}. "
            f"It has {', '.join(own[:8]) or 'none'}."
        )
    return module, function


def _said(error: BaseException, module: ModuleType | None) -> str:
    """Return what an error says, with its place: the last line of the module that is on the way to it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if module is not None and frame.filename == module.__file__] or frames
    place = f" ({own[-1].filename}, line {own[-1].lineno})" if own and not isinstance(error, SyntaxError) else ""
    return f"{type(error).__name__}: {error}{place}"
