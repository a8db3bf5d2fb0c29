"""Evaluate a model of a run on its suites, one after the other, and write their results."""

import json
from collections.abc import Iterable
from functools import partial

from curate.dataset.output_folder import write_atomic
from train.config import Config
from train.engine_options import EngineOptions
from train.evaluation.codeforces.rating import ratings_as_json
from train.evaluation.evaluate import evaluate
from train.evaluation.result_file import result_json
from train.evaluation.sample_store import SampleStore
from train.rollouts.scoring import open_sandbox
from train.run_evaluation.pending_evaluation import PendingEvaluation
from train.run_evaluation.result_paths import result_path
from train.run_evaluation.run_suites import RunSuite
from train.sampling.protocol import Sampler, SamplingParams


def evaluate_suites(config: Config, suites: Iterable[RunSuite], sampler: Sampler, pending: PendingEvaluation) -> None:
    """Evaluate on the suites that are not finished yet. Their samples so far are kept and not drawn again.

    Raises CurateError if the sandbox fails again and again, and SamplerError if no samples can be drawn.
    """
    settings, finished = config.evaluation, pending.suite_metrics()
    sampling = SamplingParams(settings.temperature, settings.top_p, pending.max_tokens)
    with open_sandbox(config.sandbox, config.most) as sandbox:
        for suite in suites:
            if suite.name in finished:
                continue
            with SampleStore(pending.samples_path(suite.name)) as samples:
                evaluation = evaluate(
                    suite.exercises,
                    partial(sampler.sample, sampling=sampling),
                    sandbox,
                    k=settings.k,
                    samples=samples,
                )
            content = result_json(
                evaluation,
                model=f"{pending.run.resolve().name}/step-{pending.step}",
                data=suite.location,
                suite=suite.name,
                window=suite.window,
                sampling=sampling,
                seed=0,
                exercises=suite.exercises,
                prompt=config.prompt,
                engine=EngineOptions(config.engine.concurrency or None, config.engine.options),
                ratings=ratings_as_json(evaluation.outcomes),
            )
            path = result_path(pending.run, suite.name, pending.step)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, json.dumps(content, indent=1) + "\n")
            pending.record_suite_metrics(suite.name, evaluation.metrics())
