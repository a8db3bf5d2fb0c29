"""Execute solutions until one passes every test; a problem without such a solution is rejected."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from curate.build_state import BuildState
from curate.problem import Problem, Rejection
from curate.stage import ProblemStage
from curate.verification.cross_check import CrossCheckRecord
from curate.verification.references import ReferenceRecord, apply_record, find_references, fingerprint


class VerificationStage(ProblemStage[ReferenceRecord]):
    """Looks for a reference among the solutions of each problem, if its source publishes solutions.

    tries      number of solutions to execute before giving up on a problem
    languages  languages of the solutions that may be executed
    seed       seed of the programs' random numbers and hashes
    """

    name = "verify"
    record_type = ReferenceRecord
    journal_name = "findings.jsonl"

    def __init__(self, *, tries: int, languages: tuple[str, ...], seed: int) -> None:
        self.tries, self.languages, self.seed = tries, languages, seed
        self._keys: dict[str, str] = {}

    @property
    def options(self) -> Mapping[str, Any]:
        return {"tries": self.tries, "reference_languages": self.languages, "seed": self.seed}

    def on_read(self, problem: Problem) -> None:
        """Compute the fingerprint while the tests, which may be large, are in memory."""
        if problem.solutions is not None and problem.tests.cases:  # without tests, nothing can be shown
            key = fingerprint(problem, tries=self.tries, languages=self.languages, seed=self.seed)
            self._keys[problem.id] = key

    def ids(self, build: BuildState) -> Iterable[str]:
        """Return the problems that have solutions, in the order in which they were read."""
        return self._keys

    def fingerprint(self, id: str, build: BuildState) -> str | None:
        return self._keys.get(id)

    def examine(self, ids: list[str], build: BuildState) -> Iterator[tuple[str, ReferenceRecord]]:
        with build.sandbox(seed=self.seed) as sandbox:
            problems = map(build.load_original, ids)
            for problem, finding in find_references(problems, sandbox, tries=self.tries, languages=self.languages):
                yield problem.id, finding

    def apply_record(self, problem: Problem, record: ReferenceRecord) -> Problem:
        return apply_record(problem, record, languages=self.languages)

    def rejection(self, id: str, record: ReferenceRecord, build: BuildState) -> Rejection | None:
        return (
            None
            if record.passing_index is not None
            else reference_rejection(build.load_original(id), record, CrossCheckRecord())
        )

    def cpu_seconds(self, record: ReferenceRecord) -> float:
        return record.spent_cpu_seconds

    def run(self, build: BuildState) -> None:
        super().run(build)
        build.outputs.reference_cpu_seconds = sum(finding.cpu_seconds for finding in self.records.values())


def reference_rejection(problem: Problem, finding: ReferenceRecord, cross_check_record: CrossCheckRecord) -> Rejection:
    """Return a rejection that says why no solution of this problem could be its reference."""
    causes = Counter(finding.causes)
    detail = ", ".join(f"{cause} {n}" for cause, n in sorted(causes.items()))
    detail += f"; {finding.n_tries} of {len(problem.solutions or ())} solutions tried"
    if cross_check_record.n_wrong_tests:
        detail += (
            f"; at {cross_check_record.n_wrong_tests} tests most of them agree on another answer than the expected one"
        )
    cause = "wrong_tests" if cross_check_record.n_wrong_tests else causes.most_common(1)[0][0]
    return Rejection(problem.id, problem.source, "verify", "reference_fails", detail, cause)
