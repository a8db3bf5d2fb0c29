"""Sampling, evaluation and GRPO+ training of models on datasets with trusted rewards.

    config/        the configuration of a run, read from TOML; its presets/ have the values of published recipes
    sampling/      prompts in, completions out: vLLM, an OpenAI-compatible server, transformers
    evaluation/    pass rates of models on suites, with statistics
    learning/      optimizer steps on scored completions: objectives, model, ranks
    rollouts/      batches of scored completions, and new weights for the sampler
    weights/       transfer of new weights from the learner to the engines
    asynchronous/  controller and rollout workers: sampling continues during training
    swarm/         untrusted workers: verified, paid, banned
    planning/      simulation of a run: its duration, and the best split of its GPUs
    run/           the folder of a run: checkpoints, metrics, evaluations, plots, the model card
    loop.py        the training loop
    commands/      `curate train`, `curate evaluate` and all others

The names below are loaded on first use, so importing this package loads neither torch nor vLLM.
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
