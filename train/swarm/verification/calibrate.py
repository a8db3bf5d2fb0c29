"""The bars of a run's model: its engine draws answers to its own prompts, and a verifier looks at them."""

import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from train.asynchronous.messages import Draw, Lease
from train.sampling.engine_environment import prepare_for_engine
from train.sampling.engine_terms import EngineTerms, open_for
from train.swarm.settings import Bars
from train.swarm.verification.calibration import bars_from, drawn, measured
from train.swarm.verification.measured import Measured, pooled
from train.swarm.verification.prefill import Prefill

if TYPE_CHECKING:
    from train.config import Config

Report = Callable[[str, int, int], None]  # the stage, what is done of it, and all of it


def calibrate(config: "Config", *, n_leases: int, report: Report) -> tuple[str, Bars, Measured]:
    """Return the name of the pair of engines, its bars, and the distances of all answers together.

    n_leases: how many groups of the run's size are drawn

    Raises ConfigError, SamplerError, and CurateError if the run's datasets cannot be read.
    """
    from train.sampling.open_engine import terms_of

    prepare_for_engine()
    terms = terms_of(config, "calibration")
    leases = _leases(config, n_leases)
    n_answers = sum(len(lease.seeds) for lease in leases)
    with closing(open_for(terms, verifiable=True)) as engine:
        completions = drawn(engine, leases, lambda done: report("drawing", done, n_answers))
    prefill = Prefill.of(terms)  # only now, because both may not have room on one GPU
    honest = []
    for lease, answers in zip(leases, completions, strict=True):
        honest.append(measured(prefill, lease, answers))
        report("verifying", sum(map(len, honest)), n_answers)
    return _pair(terms), bars_from(honest), pooled([answer for answers in honest for answer in answers])


def _leases(config: "Config", n_leases: int) -> list[Lease]:
    from transformers import AutoTokenizer

    from train.rollouts.batch import sample_seed
    from train.rollouts.questions import Questions

    tokenizer = AutoTokenizer.from_pretrained(str(Path(config.model.path).expanduser()))
    seed, rollout = config.run.seed, config.rollout
    draw = Draw(rollout.temperature, 1.0, max(stage.max_tokens for stage in config.stages), verifiable=True)
    with tempfile.TemporaryDirectory(prefix="curate-calibrate-") as folder:
        questions = Questions(config.data, config.prompt, tokenizer, seed=seed, cache=Path(folder) / "questions.jsonl")
        return [
            Lease(
                group=position,
                attempt=0,
                version=0,
                prompt=questions.at(position).prompt_ids,
                seeds=tuple(sample_seed(seed, position, number) for number in range(rollout.completions)),
                draw=draw,
                seconds=0.0,
            )
            for position in range(n_leases)
        ]


def _pair(terms: EngineTerms) -> str:
    return f"{terms.kind}/transformers"
