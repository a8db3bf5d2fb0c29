"""A result with what its file leaves out: the exercises, read again as they were, and the answers beside it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from curate.errors import CurateError
from curate.prompt import read_prompt
from curate.trust import SUSPECTS, UNVERIFIED, TrustPolicy
from train.evaluation.exercise import Exercise
from train.evaluation.exercises import read_exercises
from train.evaluation.fingerprints import sample_key
from train.evaluation.protocols.resolution import restore_style
from train.evaluation.results.reader import Result, SampleProvenance
from train.evaluation.statistics.outcomes import ProblemOutcomes
from train.evaluation.suites.registry import parse_suite

_AGAIN = "Run its `curate evaluate` again, which samples nothing twice."


@dataclass(frozen=True, slots=True)
class LoadedResult:
    """A result whose answers can be judged again and exported.

    provenance  how its samples came about, with what the caller wants instead
    exercises   all exercises of its suite by id, whether they were evaluated or not
    """

    result: Result
    provenance: SampleProvenance
    exercises: Mapping[str, Exercise]

    @property
    def samples_path(self) -> Path:
        """Return the path of the file with the answers. Raises CurateError if there is none."""
        path = samples_path(self.result.path)
        if not path.is_file():
            raise CurateError(f"{self.result.path} has no answers beside it: {path} is missing. {_AGAIN}")
        return path


def samples_path(result: Path) -> Path:
    """Return the path of the file with the samples of a result."""
    return result.with_name(result.name + ".samples.jsonl")


def sample_keys(problem: ProblemOutcomes) -> list[str]:
    """Return the keys under which the samples of a problem are kept."""
    return [sample_key(problem.samples_digest, number) for number in range(len(problem.correct))]


def load_result(result: Result, suite: str | None = None, extraction: str | None = None) -> LoadedResult:
    """Read the exercises of a result again, from the place that its file names.

    suite       NAME=PATH of other rows with the same problems; None: those of the result
    extraction  another rule by which the program is found in an answer; None: that of the result

    Raises CurateError if the file does not say how its samples came about, or if the rows are not there any more.
    """
    origin = result.provenance
    if origin is None or not all(problem.samples_digest for problem in result.outcomes):
        raise CurateError(f"{result.path} does not say which answers are its own. {_AGAIN}")
    if suite is not None:
        name, location = parse_suite(suite)
        origin = replace(origin, suite=name, location=location)
    if extraction is not None:
        origin = replace(origin, protocol=_with_extraction(origin, extraction))
    found = read_exercises(
        origin.location,
        origin.window,
        suite=origin.suite,
        trust=TrustPolicy.from_choices(
            (UNVERIFIED, SUSPECTS)
        ),  # which rows count is decided by the problems of the result
        prompt=read_prompt(origin.prompt),
        languages=origin.languages,
        style=restore_style(origin.protocol, origin.suite),
    )
    return LoadedResult(result, origin, {exercise.id: exercise for exercise in found})


def _with_extraction(origin: SampleProvenance, extraction: str) -> dict[str, Any]:
    """Return the protocol of a result with another rule of extraction in place of its own."""
    table = origin.protocol.get("table", {"name": None})
    return {"table": table, "overrides": {**origin.protocol.get("overrides", {}), "extraction": extraction}}
