"""Read the result file of an evaluation.

The earlier schema has no number. Its files have the numbers of right samples but neither their lengths, nor the facts
of problems, nor digests of their tests. So they can be compared, but what they lack is shown as unknown.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curate.errors import CurateError
from rewards.extract import PYTHON_ONLY
from train.evaluation.results.ratings import StoredRating, stored_ratings
from train.evaluation.statistics.outcomes import ProblemMetadata, ProblemOutcomes

SCHEMA = 2
_ADVICE = "Give a file that `curate evaluate --out FILE` has written."


@dataclass(frozen=True, slots=True)
class SampleProvenance:
    """How the samples of a result came about.

    suite      the name of the suite; empty: none was named
    location   where its rows are
    window     FROM..TO; empty: all
    languages  the languages that answers may be written in
    prompt     the table of the prompt
    protocol   the table of the protocol and what was used in its place; empty: none
    """

    suite: str
    location: str
    window: str
    languages: tuple[str, ...]
    prompt: Mapping[str, Any]
    protocol: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """An evaluation of a model.

    suite        the name of the suite, with its window if there is one
    outcomes     for each problem, what is known of its samples
    sampling     the settings of the sampler: temperature, top_p, max_tokens
    is_complete  False for a file of the earlier schema: lengths, facts and tests are unknown
    ratings      ratings of the model, if the suite has any, the one that says most first
    provenance   None if the file does not tell it, because an earlier version wrote it
    """

    path: Path
    model: str
    suite: str
    outcomes: tuple[ProblemOutcomes, ...]
    sampling: Mapping[str, Any]
    is_complete: bool = True
    ratings: tuple[StoredRating, ...] = ()
    provenance: SampleProvenance | None = None

    @property
    def k(self) -> int:
        """Return the largest number of samples of a problem."""
        return max((len(problem.correct) for problem in self.outcomes), default=0)


def suite_name(location: str) -> str:
    """Return the name that stands for a location in tables: the last part of a path or of a Hub id."""
    return Path(location.partition("?")[0]).name or location


def suite_label(location: str, window: str) -> str:
    """Return the name of a suite in tables and headings."""
    return _label(suite_name(location), window)


def read_result(path: Path) -> Result:
    """Read a result file. Raises CurateError if it is not one, and OSError if it cannot be read."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise CurateError(f"{path} is not a JSON file. {_ADVICE}") from None
    if not is_result(content):
        raise CurateError(f"{path} is not the result of an evaluation. {_ADVICE}")
    schema = content.get("schema", 1)
    if schema not in (1, SCHEMA):
        raise CurateError(
            f"{path} has schema {schema}, and this version of curate reads up to {SCHEMA}. Update curate."
        )
    try:
        return _earlier(path, content) if schema == 1 else _present(path, content)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        words = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise CurateError(
            f"{path} is damaged: {words}. Run its `curate evaluate` again, which samples nothing twice."
        ) from None


def is_result(content: Any) -> bool:
    """Tell whether the content of a JSON file looks like a result file of any schema."""
    return isinstance(content, dict) and "model" in content and isinstance(content.get("problems"), list)


def read_results(paths: tuple[Path, ...]) -> list[Result]:
    """Read result files, and those in folders, in the order of their names. Other JSON files in folders are left out.

    Raises CurateError if a file is not a result, or if there is none in a folder.
    """
    results = []
    for path in paths:
        if not path.is_dir():
            results.append(read_result(path))
            continue
        inside = [file for file in sorted(path.rglob("*.json")) if _looks_like_one(file)]
        if not inside:
            raise CurateError(f"{path} has no result of an evaluation in it. {_ADVICE}")
        results += map(read_result, inside)
    return results


def _looks_like_one(path: Path) -> bool:
    try:
        return is_result(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, OSError):
        return False


def _present(path: Path, content: Mapping[str, Any]) -> Result:
    suite = content["suite"]
    outcomes = tuple(map(ProblemOutcomes.from_json, content["problems"]))
    name = _label(suite["name"], suite["window"]["asked"])
    model, sampling = str(content["model"]["name"]), dict(content["sampling"])
    ratings, origin = stored_ratings(content), _origin(content)
    return Result(path, model, name, outcomes, sampling, ratings=ratings, provenance=origin)


def _origin(content: Mapping[str, Any]) -> SampleProvenance | None:
    suite = content["suite"]
    if "given" not in suite:
        return None
    return SampleProvenance(
        str(suite["given"]),
        str(suite["location"]),
        str(suite["window"]["asked"]),
        tuple(content.get("languages", PYTHON_ONLY)),
        dict(content["prompt"]),
        dict(content.get("protocol", {})),
    )


def _earlier(path: Path, content: Mapping[str, Any]) -> Result:
    outcomes = tuple(_counted(entry) for entry in content["problems"])
    name = _label(suite_name(str(content["data"])), content.get("window", ""))
    return Result(path, str(content["model"]), name, outcomes, dict(content.get("sampling", {})), is_complete=False)


def _counted(entry: Mapping[str, Any]) -> ProblemOutcomes:
    """Return the outcomes of a problem of which only the numbers of samples and of right ones are known."""
    n, n_correct = int(entry["n"]), int(entry["n_correct"])
    if not 0 <= n_correct <= n:
        raise ValueError(f"{entry['id']}: {n_correct} of {n} samples are right")
    bits = (True,) * n_correct + (False,) * (n - n_correct)
    return ProblemOutcomes(str(entry["id"]), ProblemMetadata(), bits, (0,) * n, (False,) * n)


def _label(name: str, window: str) -> str:
    return f"{name} {window}" if window else str(name)
