"""The bars of a run's model: its engine draws answers to its own prompts, and a verifier looks at them."""

import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from train.asynchronous.messages import Lease
from train.sampling.engine_spec import EngineSpec, clear_trainer_environment, start_engine
from train.sampling.protocol import SamplingParams
from train.swarm.settings import Thresholds
from train.swarm.verification.distances import Distances, pool_distances
from train.swarm.verification.threshold_fitting import fit_thresholds, measure_completions, sample_completions
from train.swarm.verification.verifier_model import VerifierModel

if TYPE_CHECKING:
    from train.config import Config

ProgressCallback = Callable[[str, int, int], None]  # the stage, what is done of it, and all of it


def calibrate(config: "Config", *, n_leases: int, report: ProgressCallback) -> tuple[str, Thresholds, Distances]:
    """Return the name of the pair of engines, its bars, and the distances of all answers together.

    n_leases: how many groups of the run's size are drawn

    Raises ConfigError, SamplerError, and CurateError if the run's datasets cannot be read.
    """
    from train.sampling.open_engine import engine_spec

    clear_trainer_environment()
    spec = engine_spec(config, "calibration")
    leases = _leases(config, n_leases)
    n_answers = sum(len(lease.seeds) for lease in leases)
    with closing(start_engine(spec, verifiable=True)) as engine:
        completions = sample_completions(engine, leases, lambda done: report("drawing", done, n_answers))
    verifier_model = VerifierModel.from_spec(spec)  # only now, because both may not have room on one GPU
    honest = []
    for lease, answers in zip(leases, completions, strict=True):
        honest.append(measure_completions(verifier_model, lease, answers))
        report("verifying", sum(map(len, honest)), n_answers)
    return _pair(spec), fit_thresholds(honest), pool_distances([answer for answers in honest for answer in answers])


def _leases(config: "Config", n_leases: int) -> list[Lease]:
    from transformers import AutoTokenizer

    from train.rollouts.groups import sample_seed
    from train.rollouts.prompt_dataset import PromptDataset

    tokenizer = AutoTokenizer.from_pretrained(str(Path(config.model.path).expanduser()))
    seed, rollout = config.run.seed, config.rollout
    draw = SamplingParams(
        rollout.temperature, 1.0, max(stage.max_tokens for stage in config.stages), True, verifiable=True
    )
    with tempfile.TemporaryDirectory(prefix="curate-calibrate-") as folder:
        questions = PromptDataset(
            config.data, config.prompt, tokenizer, seed=seed, cache=Path(folder) / "questions.jsonl"
        )
        return [
            Lease(
                group=position,
                attempt=0,
                version=0,
                prompt=questions.prompt_at(position).prompt_ids,
                seeds=tuple(sample_seed(seed, position, number) for number in range(rollout.completions)),
                sampling_params=draw,
                expires_in_seconds=0.0,
            )
            for position in range(n_leases)
        ]


def _pair(spec: EngineSpec) -> str:
    return f"{spec.kind}/transformers"
