"""A result with its answers and exercises, which all forms of export need."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from curate.errors import CurateError
from rewards.extract import PYTHON_ONLY
from train.evaluation.exercise import Exercise
from train.evaluation.extraction.registry import extract_program
from train.evaluation.judges.call_judge import CallJudge
from train.evaluation.judges.judge import SuiteJudge
from train.evaluation.rescore import LoadedResult, load_result, sample_keys
from train.evaluation.results.result import read_result
from train.evaluation.sample_store import SampleRecord, read_samples
from train.evaluation.statistics.outcomes import ProblemOutcomes

_MAX_SHOWN = 5  # ids in a message


@dataclass(frozen=True, slots=True)
class ExportData:
    """records: the answers to each problem by its id, in the order of the samples; each sample has one."""

    loaded_result: LoadedResult
    records: Mapping[str, tuple[SampleRecord, ...]]

    @property
    def problems(self) -> tuple[ProblemOutcomes, ...]:
        return self.loaded_result.result.outcomes

    @property
    def exercises(self) -> Mapping[str, Exercise]:
        return self.loaded_result.exercises

    def sources(self, id: str) -> list[str]:
        """Return the source code of the programs in the answers to a problem; "" where an answer has none.

        Raises CurateError if the answers are not programs in Python.
        """
        exercise = self.exercises[id]
        return [_source(exercise, record.text) for record in self.records[id]]


def load_export_data(path: Path, suites: tuple[str, ...], form: str) -> ExportData:
    """Read a result that was evaluated on one of these suites, with its answers.

    Raises CurateError if it was evaluated on another suite, or if an answer is missing: no form can say that nothing is
    known about a sample.
    """
    reopened = load_result(read_result(path))
    if reopened.result.given_suite not in suites:
        raise CurateError(
            f"{path} is the result on {reopened.result.given_suite or 'a suite without a name'}, and {form} takes "
            f"results on {' or '.join(suites)}. Evaluate with --suite {suites[0]}=PATH."
        )
    gone = [problem.id for problem in reopened.result.outcomes if problem.id not in reopened.exercises]
    if gone:
        raise CurateError(
            f"{reopened.result.location} does not have {summarize_ids(gone)} any more. Is it the same file?"
        )
    keys = {problem.id: sample_keys(problem) for problem in reopened.result.outcomes}
    kept = read_samples(reopened.samples_path, {key for of_problem in keys.values() for key in of_problem})
    missing = [id for id, of_problem in keys.items() if not all(key in kept for key in of_problem)]
    if missing:
        raise CurateError(
            f"samples of {summarize_ids(missing)} have no answer, and {form} cannot say that. Run the same `curate "
            "evaluate` again, which draws them."
        )
    return ExportData(reopened, {id: tuple(kept[key] for key in of_problem) for id, of_problem in keys.items()})


def summarize_ids(ids: list[str]) -> str:
    """Return the first of some ids as text, and how many more there are."""
    more = len(ids) - _MAX_SHOWN
    return ", ".join(ids[:_MAX_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _source(exercise: Exercise, answer: str) -> str:
    judge, text = exercise.judge, exercise.judged_text(answer)
    if isinstance(judge, SuiteJudge):
        if judge.languages != PYTHON_ONLY:
            raise CurateError("the answers may be in several languages, and this form is for Python alone.")
        program = judge.submission(text)
        return program.source if program else ""
    if isinstance(judge, CallJudge):
        program = extract_program(judge.extraction, text, PYTHON_ONLY)
        return (
            f"{judge.preamble}\n{program.source}" if program and judge.preamble else program.source if program else ""
        )
    raise CurateError(f"the answer to {exercise.id} is not a program.")
