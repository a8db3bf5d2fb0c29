"""The JSON file of an evaluation, in schema 2: the model, suite and sampling, the numbers, and the samples' outcomes.

train/evaluation/results/reader.py reads it.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any

from curate.prompt import PromptFormat
from rewards.extract import PYTHON_ONLY
from sandbox import Package
from train.engine_options import EngineOptions
from train.evaluation.codeforces.rating import ratings_as_json
from train.evaluation.evaluate import EvaluationResult
from train.evaluation.exercise import Exercise
from train.evaluation.judges.suite_judge import SuiteJudge
from train.evaluation.loaded_result import LoadedResult
from train.evaluation.model_metadata import model_metadata, weight_files
from train.evaluation.results.cost import Prices, cost
from train.evaluation.results.reader import SCHEMA, suite_name
from train.evaluation.results.summary_json import summarize_by_stratum, summary_as_json
from train.evaluation.results.tests_source import tests_source
from train.evaluation.statistics.outcomes import ProblemOutcomes
from train.evaluation.statistics.summary import summarize
from train.evaluation.suite_metadata import file_sha256, suite_tests_source
from train.sampling.protocol import SamplingParams

NO_PROTOCOL: Mapping[str, Any] = MappingProxyType({})


def result_json(
    evaluation: EvaluationResult,
    *,
    model: str,
    data: str,
    suite: str,
    window: str,
    sampling: SamplingParams,
    seed: int,
    exercises: Sequence[Exercise],
    prompt: PromptFormat,
    engine: EngineOptions,
    base_url: str | None = None,
    protocol: Mapping[str, Any] = NO_PROTOCOL,
    ratings: Sequence[Mapping[str, Any]] = (),
    prices: Prices | None = None,
) -> dict[str, Any]:
    """Return the content of the file, in which an unknown number is null. The default prompt is an empty table.

    suite     the name of the suite, \"\" if none was named
    protocol  the protocol's table, and what was used in its place: see protocols/resolution.py; empty: none
    ratings   what train/evaluation/codeforces/rating.py makes of the outcomes; they are left out if there are none
    prices    of a million tokens; None: costs are not computed

    The same evaluation has the same content, whether it was interrupted or not: there are no times in it.
    """
    languages = _languages(exercises)
    return {
        "schema": SCHEMA,
        "curate": _version(),
        "model": model_metadata(model, base_url, engine.vllm.get("revision")),
        "suite": suite_table(suite, data, window, evaluation, exercises),
        **({"protocol": dict(protocol)} if protocol else {}),
        "sampling": {"k": evaluation.k, **sampling.as_table()},
        "prompt": prompt.as_table(),
        **({"languages": list(languages)} if languages != PYTHON_ONLY else {}),
        "engine": engine.for_vllm(),
        "seed": seed,
        **sample_results_json(evaluation, ratings, prices),
    }


def suite_table(
    suite: str, location: str, window: str, evaluation: EvaluationResult, exercises: Sequence[Exercise]
) -> dict[str, Any]:
    """Return what the file says of the suite."""
    digest = file_sha256(location)
    names = "\n".join(exercise.fingerprint for exercise in exercises)
    return {
        "name": suite or suite_name(location),
        "given": suite,
        "location": location,
        **({"file_sha256": digest} if digest else {}),
        "tests": tests_source(evaluation.outcomes) or suite_tests_source(location, suite),
        "window": {"asked": window, **_found(evaluation.outcomes)},
        "problems": len(exercises),
        "exercises_sha256": hashlib.sha256(names.encode()).hexdigest(),
    }


def sample_results_json(
    evaluation: EvaluationResult, ratings: Sequence[Mapping[str, Any]] = (), prices: Prices | None = None
) -> dict[str, Any]:
    """Return what the file says of the samples: the numbers, the strata, and the outcomes of each problem."""
    return {
        "numbers": {
            **summary_as_json(summarize(evaluation.outcomes)),
            "n_truncated": evaluation.n_truncated,
            "n_truncated_correct": evaluation.n_truncated_correct,
            "n_no_code": evaluation.n_no_code,
            "mean_tokens": evaluation.mean_tokens if isfinite(evaluation.mean_tokens) else None,
            "tokens": asdict(evaluation.tokens),
            **({} if prices is None else {"cost": cost(evaluation.tokens, prices), "prices": asdict(prices)}),
            "verdicts": evaluation.verdicts,
        },
        **({"ratings": list(ratings)} if ratings else {}),
        "strata": {
            name: {value: summary_as_json(summary) for value, summary in groups.items()}
            for name, groups in summarize_by_stratum(evaluation.outcomes).items()
        },
        "problems": [problem.to_json() for problem in evaluation.outcomes],
    }


def with_new_verdicts(
    content: Mapping[str, Any], loaded_result: LoadedResult, evaluation: EvaluationResult
) -> dict[str, Any]:
    """Return the content of a result file after its answers were judged again."""
    origin = loaded_result.provenance
    found = {problem.id for problem in evaluation.outcomes}
    exercises = [exercise for exercise in loaded_result.exercises.values() if exercise.id in found]
    prices = content["numbers"].get("prices")
    return {
        **{name: value for name, value in content.items() if name != "ratings"},
        "curate": _version(),
        "suite": suite_table(origin.suite, origin.location, origin.window, evaluation, exercises),
        **({"protocol": dict(origin.protocol)} if origin.protocol else {}),
        **sample_results_json(
            evaluation,
            ratings_as_json(evaluation.outcomes, seed=content["seed"]),
            None if prices is None else Prices(**prices),
        ),
    }


def _languages(exercises: Iterable[Exercise]) -> tuple[str, ...]:
    """Return the languages in which answers are searched for programs."""
    judges = (exercise.judge for exercise in exercises)
    return next((judge.languages for judge in judges if isinstance(judge, SuiteJudge)), PYTHON_ONLY)


def _version() -> str | None:
    try:
        return version("curate-code")
    except PackageNotFoundError:
        return None  # a source tree that is not installed


def _found(outcomes: Iterable[ProblemOutcomes]) -> dict[str, str | None]:
    """Return the days of the first and the last problem, which may lie well within the window that was asked for."""
    days = [problem.metadata.date for problem in outcomes if problem.metadata.date is not None]
    return {"first": str(min(days)) if days else None, "last": str(max(days)) if days else None}


def sample_dependencies(model: str, sampling: SamplingParams, prompt: PromptFormat, engine: EngineOptions) -> list[Any]:
    """Return all that samples depend on, except the exercise and the seed, as plain values.

    The prompt and the engine add nothing if they are the default ones, so that earlier samples are found again.
    """
    more = {"template_arguments": dict(prompt.template_arguments), "engine": engine.sample_affecting_options()}
    return [_identity(model), sampling.as_table(), *([more] if any(more.values()) else [])]


def verdict_dependencies(packages: Iterable[Package]) -> list[Any]:
    """Return what verdicts depend on besides the exercise, as plain values: the packages that programs can import."""
    return [asdict(package) for package in packages]


def _identity(model: str) -> list[Any]:
    """Return values that distinguish models: the name and, for a folder, the sizes and times of its weight files."""
    folder = Path(model).expanduser()
    return [model, *([path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in weight_files(folder))]
