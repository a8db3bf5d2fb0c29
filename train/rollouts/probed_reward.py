"""The reward of a run as a judge for `curate probe`."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from curate.probe.forms import UnusableTarget
from rewards.reward import Completion, Task
from sandbox import SandboxError, Suite
from train.config import Config, read_config
from train.errors import TrainError
from train.rollouts.prompt_dataset import ProblemKinds
from train.rollouts.rewards import open_scorer

_stack = ExitStack()  # never closed: the rewards stay open until the process exits
_ON_SERVERS = ("http", "ray")
_UNUSED = "unused"  # placeholder for the required keys model.path and data.dataset, which rewards do not read


def needs_network(path: str) -> bool:
    """Return whether programs run on a sandbox server. Raises UnusableTarget if the configuration is invalid."""
    return _read(path).sandbox.backend in _ON_SERVERS


def _read(path: str) -> Config:
    try:
        return read_config(Path(path), model=_UNUSED, dataset=_UNUSED)
    except (TrainError, OSError, ValueError) as error:
        raise _to_unusable_target(path, error) from error


def _to_unusable_target(path: str, error: Exception) -> UnusableTarget:
    return UnusableTarget(str(error) if path in str(error) else f"{path}: {error}")


def open_reward(path: str) -> Callable[[str, Suite], float | None]:
    """Return a function that scores a completion by the run's reward, given the tests of its problem.

    path: file of the run's configuration

    Raises UnusableTarget if the configuration is invalid or its sandbox cannot be opened.
    """
    config = _read(path)
    try:
        kinds = ProblemKinds(tests=True)
        rewards = _stack.enter_context(
            open_scorer(config.reward, config.sandbox, config.limits, seed=config.run.seed, kinds=kinds)
        )
    except (TrainError, SandboxError, OSError, ValueError) as error:
        raise _to_unusable_target(path, error) from error

    def score(completion: str, suite: Suite) -> float | None:
        return (
            rewards.submit(Completion(completion, len(completion) // 4), Task(tests=suite, id="probe")).result().value
        )

    return score
