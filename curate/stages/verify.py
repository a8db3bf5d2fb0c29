"""Execute solutions until one passes every test; a problem without such a solution is rejected."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from curate.ongoing_build import OngoingBuild
from curate.problem import Problem, Rejection
from curate.stage import ProblemStage
from curate.verification.cross_check import Opinion
from curate.verification.references import Finding, find_references, fingerprint, settle


class Verify(ProblemStage[Finding]):
    """Looks for a reference among the solutions of each problem, if its source publishes solutions.

    tries      number of solutions to execute before giving up on a problem
    languages  languages of the solutions that may be executed
    seed       seed of the programs' random numbers and hashes
    """

    name = "verify"
    record_type = Finding
    journal = "findings.jsonl"

    def __init__(self, *, tries: int, languages: tuple[str, ...], seed: int) -> None:
        self.tries, self.languages, self.seed = tries, languages, seed
        self._keys: dict[str, str] = {}

    @property
    def options(self) -> Mapping[str, Any]:
        return {"tries": self.tries, "reference_languages": self.languages, "seed": self.seed}

    def see(self, problem: Problem) -> None:
        """Compute the fingerprint while the tests, which may be large, are in memory."""
        if problem.solutions is not None and problem.tests.cases:  # without tests, nothing can be shown
            key = fingerprint(problem, tries=self.tries, languages=self.languages, seed=self.seed)
            self._keys[problem.id] = key

    def ids(self, build: OngoingBuild) -> Iterable[str]:
        """Return the problems that have solutions, in the order in which they were read."""
        return self._keys

    def fingerprint(self, id: str, build: OngoingBuild) -> str | None:
        return self._keys.get(id)

    def examine(self, ids: list[str], build: OngoingBuild) -> Iterator[tuple[str, Finding]]:
        with build.sandbox(seed=self.seed) as sandbox:
            problems = map(build.load_as_read, ids)
            for problem, finding in find_references(problems, sandbox, tries=self.tries, languages=self.languages):
                yield problem.id, finding

    def settled(self, problem: Problem, record: Finding) -> Problem:
        return settle(problem, record, languages=self.languages)

    def rejection(self, id: str, record: Finding, build: OngoingBuild) -> Rejection | None:
        return None if record.passed is not None else reference_fails(build.load_as_read(id), record, Opinion())

    def cpu_seconds(self, record: Finding) -> float:
        return record.spent_seconds

    def run(self, build: OngoingBuild) -> None:
        super().run(build)
        build.extras.reference_cpu_seconds = sum(finding.cpu_seconds for finding in self.records.values())


def reference_fails(problem: Problem, finding: Finding, opinion: Opinion) -> Rejection:
    """Return a rejection that says why no solution of this problem could be its reference."""
    causes = Counter(finding.causes)
    detail = ", ".join(f"{cause} {n}" for cause, n in sorted(causes.items()))
    detail += f"; {finding.n_tries} of {len(problem.solutions or ())} solutions tried"
    if opinion.n_wrong_tests:
        detail += f"; at {opinion.n_wrong_tests} tests most of them agree on another answer than the expected one"
    cause = "wrong_tests" if opinion.n_wrong_tests else causes.most_common(1)[0][0]
    return Rejection(problem.id, problem.source, "verify", "reference_fails", detail, cause)
