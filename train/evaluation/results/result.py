"""Where the tests of an evaluation come from, if its problems say it.

MERGED Ratings in a result file, and in words. train/evaluation/codeforces/rating.py makes them.

MERGED Read the result file of an evaluation.

The earlier schema has no number. Its files have the numbers of right samples but neither their lengths, nor the facts
of problems, nor digests of their tests. So they can be compared, but what they lack is shown as unknown.

MERGED Short names of several results: the names of their models, unless two of them are of the same model.

MERGED Summaries as JSON, and the strata that are known.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite, nan
from pathlib import Path
from typing import Any, Self

from curate.errors import CurateError
from rewards.extract import PYTHON_ONLY
from train.evaluation.statistics.outcomes import STRATUM_KEYS, ProblemMetadata, ProblemOutcomes, Summary, strata


def tests_source(outcomes: Iterable[ProblemOutcomes]) -> str:
    """Return the sources, such as "examples" or "official, official+generated"; "" if no problem says it."""
    return ", ".join(sorted({problem.metadata.tests_source for problem in outcomes if problem.metadata.tests_source}))


BY_CONTESTS = "contests"
_UPPER_BOUND = "the examples of statements, which wrong programs pass, too, so the rating is an upper bound"


@dataclass(frozen=True, slots=True)
class StoredRating:
    """A rating as a result file has it. A number that is unknown is nan.

    basis           BY_CONTESTS
    tests_source    where the tests come from
    is_upper_bound  whether wrong programs pass these tests
    n               contests that the rating is of
    attempts        samples of a problem
    percentile      users with a lower rating, in percent; with the bounds for `low` and `high`
    table           of percentiles
    n_not_judged    problems of the contests that were not evaluated
    """

    basis: str
    rating: float
    low: float
    high: float
    tests_source: str
    is_upper_bound: bool
    n: int
    attempts: int
    percentile: float
    percentile_low: float
    percentile_high: float
    table: str
    n_not_judged: int

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Self:
        """Read a rating of a result file. Raises KeyError, TypeError or ValueError if it is not one."""
        contests = entry["contests"]
        return cls(
            basis=str(entry["by"]),
            rating=_number(entry["rating"]),
            low=_number(entry["low"]),
            high=_number(entry["high"]),
            tests_source=str(entry["tests"]),
            is_upper_bound=bool(entry["is_upper_bound"]),
            n=len(contests),
            attempts=int(entry["attempts"]),
            percentile=_number(entry["percentile"]),
            percentile_low=_number(entry["percentile_low"]),
            percentile_high=_number(entry["percentile_high"]),
            table=str(entry["table"]),
            n_not_judged=sum(int(one["n_problems"]) - int(one["n_judged"]) for one in contests),
        )

    @property
    def summary_line(self) -> str:
        """The rating with its interval, its percentile, and the source of the tests, in one line."""
        value = f"{self.rating:.0f} ({_range(self.low, self.high, 0)})"
        tests = f"tests: {self.tests_source}{', an upper bound' if self.is_upper_bound else ''}"
        percentiles = f"{self.percentile:.1f} ({_range(self.percentile_low, self.percentile_high, 1)})"
        what = f"over {self.n} contests with {self.attempts} attempts"
        return f"rating {value} {what}, percentile {percentiles} of {self.table}; {tests}"

    @property
    def remarks(self) -> list[str]:
        """What else has to be known of the rating, as clauses."""
        remarks = []
        if self.is_upper_bound:
            remarks.append(f"the tests are {_UPPER_BOUND}")
        if self.n_not_judged:
            remarks.append(f"{self.n_not_judged} problems of these contests were not evaluated and count as not solved")
        return [*remarks, "it is the mean over all orders of the samples"]


def stored_ratings(content: Mapping[str, Any]) -> tuple[StoredRating, ...]:
    """Read the ratings of a result file, the best known one first; most have none."""
    return tuple(map(StoredRating.from_json, content.get("ratings") or ()))


def rating_lines(ratings: Sequence[StoredRating]) -> list[str]:
    """Return what is printed below the numbers of an evaluation: the rating that says most, and what it means."""
    return (
        [f"Codeforces {ratings[0].summary_line}", *(f"  {remark}" for remark in ratings[0].remarks)] if ratings else []
    )


def _number(value: Any) -> float:
    return nan if value is None else float(value)


def _range(low: float, high: float, digits: int) -> str:
    return "no interval" if low != low or high != high else f"{low:.{digits}f}-{high:.{digits}f}"


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


def short_model_name(model: str) -> str:
    """Return the last part of the path or of the Hub id of a model."""
    return Path(model).name or model


def model_names(results: Sequence[Result]) -> list[str]:
    """Return the names of the models, shortened to the last part of their paths where these differ."""
    full = {result.model for result in results}
    times = Counter(map(short_model_name, full))
    return [
        short_model_name(result.model) if times[short_model_name(result.model)] == 1 else result.model
        for result in results
    ]


def labels(results: Sequence[Result]) -> list[str]:
    """Return a different name for each result: its model's, its file's where models are the same, or its path."""
    for names in (model_names(results), [result.path.stem for result in results]):
        if len(set(names)) == len(names):
            return names
    paths = [str(result.path) for result in results]
    seen: Counter[str] = Counter()
    for number, path in enumerate(paths):
        seen[path] += 1
        if seen[path] > 1:
            paths[number] = f"{path} ({seen[path]})"
    return paths


_KEYS = {"always_solved": "always"}


def summary_as_json(summary: Summary) -> dict[str, Any]:
    """Return the numbers as JSON values, in which an unknown number is null."""
    numbers = asdict(summary) | {"pass_at": {str(j): value for j, value in summary.pass_at.items()}}
    return {
        _KEYS.get(name, name): None if isinstance(value, float) and not isfinite(value) else value
        for name, value in numbers.items()
    }


def summarize_by_stratum(outcomes: Sequence[ProblemOutcomes]) -> dict[str, dict[str, Summary]]:
    """Return the summaries by difficulty, platform and month, each only if the fact is known of some problem."""
    return {
        name: strata(outcomes, fact)
        for name, fact in STRATUM_KEYS.items()
        if any(fact(problem.metadata) is not None for problem in outcomes)
    }
