"""Sample from models, measure them, and train them with GRPO+ on datasets whose rewards can be trusted.

    config/        what a run is: one frozen Config, read from a TOML file; its presets/ have the settings of papers
    sampling/      prompts in, completions out: vLLM, an OpenAI-compatible server, transformers
    evaluation/    how often a model solves the problems of a suite, with statistics
    learning/      from scored completions to better weights: objectives, model, optimizer steps
    rollouts/      batches of scored completions, and new weights for the sampler
    weights/       transfer of new weights from the learner to the engines
    asynchronous/  a controller and its workers: training while sampling never stops
    swarm/         untrusted workers: verified, paid, banned
    planning/      a run on a simulated clock: how long it takes, and how to split GPUs
    run/           the folder of a run: checkpoints, metrics, evaluations, plots, the model card
    loop.py        the training loop
    commands/      `curate train`, `curate evaluate` and all others
    child.py       child processes that end with their parent
    interrupts.py  signals that wait for the end of a critical section
    gpu_cost.py    the cost of a run on GPUs that are paid by the hour
    errors.py      the errors of this package; TrainError is the base

The names below are loaded on first use, so that importing this package loads neither torch nor vLLM.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from train.config import Config, read_config
    from train.errors import RunError, SamplerError, TrainError
    from train.evaluation.evaluate import EvaluationResult, evaluate
    from train.evaluation.exercises import read_exercises
    from train.evaluation.suites.suite import Exercise
    from train.loop import train
    from train.run.folder import open_run

__all__ = [
    "Config", "EvaluationResult", "Exercise", "RunError", "SamplerError", "TrainError", "evaluate", "open_run",
    "read_config", "read_exercises", "train",
]  # fmt: skip
_HOME_OF = {
    "Config": "config", "EvaluationResult": "evaluation.evaluate", "Exercise": "evaluation.suites.suite",
    "RunError": "errors", "SamplerError": "errors", "TrainError": "errors", "evaluate": "evaluation.evaluate",
    "open_run": "run.folder", "read_config": "config", "read_exercises": "evaluation.exercises", "train": "loop",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
