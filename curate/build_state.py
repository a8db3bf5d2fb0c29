"""A build in progress: the problems that are left, the results about them so far, and the rejected rows."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from curate.dataset.journal import JournalRecords, ResultJournal
from curate.dataset.spill import ProblemSpill, TextSpill
from curate.json_records import from_json, to_json
from curate.manifest import SetCounts, SourceCounts, StrengthSummary
from curate.problem import Problem, Rejection
from curate.progress import Progress
from curate.report.duplicate_section import DuplicateSection
from sandbox import Sandbox

log = logging.getLogger(__name__)

Record = TypeVar("Record")


@dataclass(slots=True)
class BuildOutputs:
    """What stages add to a dataset beside its rows.

    tables: rows and columns (type and meaning by name) of further tables, by the name of the table's folder
    duplicates: the section of the report on removed duplicates
    """

    tables: dict[str, tuple[Iterable[dict[str, Any]], dict[str, tuple[str, str]]]] = field(default_factory=dict)
    duplicates: DuplicateSection | None = None
    decontamination: dict[str, SetCounts] = field(default_factory=dict)
    test_strength: StrengthSummary | None = None
    reference_cpu_seconds: float = 0.0
    executed_cpu_seconds: float = 0.0


class BuildState:
    """The build that its stages work on, one after another.

    Problems, statements of rejected rows and the records that stages keep are on disk; memory holds only ids.

    folder    the work folder; it is deleted when the build is finished
    sources   names of the sources; their order decides between equally good rows
    seconds   wall time of each step so far
    outputs   what stages add to the dataset beside its rows
    """

    def __init__(
        self,
        folder: Path,
        spill: ProblemSpill,
        statements: TextSpill,
        sources: Sequence[str],
        *,
        machine: Callable[..., Sandbox],
        progress: Progress,
    ) -> None:
        self.folder = folder
        self.sources = tuple(sources)
        self.progress = progress
        self.seconds: dict[str, float] = {}
        self.outputs = BuildOutputs()
        self._machine = machine
        self._levels = folder / "levels"  # a build that goes on keeps what earlier processes have judged
        self._sandboxes: dict[int, Sandbox] = {}  # by seed
        self._spill = spill
        self._statements = statements
        self._statement_offsets: dict[Rejection, int] = {}
        self._read: Counter[str] = Counter()
        self._rejected_rows: list[Rejection] = []
        self._rejected_problems: dict[str, Rejection] = {}
        self._updates: list[tuple[Mapping[str, Any], Callable[[Problem, Any], Problem]]] = []

    def add(self, item: Problem | Rejection) -> None:
        """Add a row that was read from a source: a problem, or the rejection of a row that is not one."""
        self._read[item.source] += 1
        self.progress("read", self._read.total(), None)
        if isinstance(item, Rejection):
            row = replace(item, statement="")
            self._rejected_rows.append(row)
            if item.statement:
                self._statement_offsets[row] = self._statements.add(item.statement)
        else:
            self._spill.add(item)
            self.__dict__.pop("ids", None)

    @cached_property
    def ids(self) -> list[str]:
        """The ids of the problems that no stage has rejected so far, sorted."""
        return sorted(set(self._spill) - self._rejected_problems.keys())

    def load(self, id: str) -> Problem:
        """Return a problem with the results of the stages that have run so far."""
        problem = self._spill.load(id)
        for records, apply in self._updates:
            if id in records:
                problem = apply(problem, records[id])
        return problem

    def load_original(self, id: str) -> Problem:
        """Return a problem as it was read from its source."""
        return self._spill.load(id)

    def reject(self, rejections: Iterable[Rejection]) -> None:
        """Remove problems. If a problem is rejected twice, the later and more specific rejection wins."""
        self._rejected_problems |= {rejection.id: rejection for rejection in rejections}
        self.__dict__.pop("ids", None)

    @property
    def rejections_by_id(self) -> Mapping[str, Rejection]:
        """The rejections of problems by the stages so far, by id."""
        return self._rejected_problems

    def statement_of(self, rejection: Rejection) -> str:
        """Return the statement of a row that was rejected before it became a problem; empty if it is not known."""
        offset = self._statement_offsets.get(rejection)
        return "" if offset is None else self._statements.load(offset)

    @property
    def rejections(self) -> list[Rejection]:
        """Everything that was rejected so far, in the order of the table `rejected`."""
        everything = [*self._rejected_rows, *self._rejected_problems.values()]
        return sorted(everything, key=lambda r: (r.id, r.stage, r.reason, r.detail))

    @contextmanager
    def sandbox(self, *, seed: int) -> Iterator[Sandbox]:
        """Lend a sandbox on the workers of this build. It stays open for later stages with the same seed."""
        if seed not in self._sandboxes:
            self._sandboxes[seed] = self._machine(seed=seed)
            with self._levels.open("a") as file:
                file.write(f"{self._sandboxes[seed].level}\n")
        yield self._sandboxes[seed]

    @property
    def isolation_levels(self) -> tuple[str, ...]:
        """The levels of isolation of all sandboxes of this build."""
        return tuple(sorted(set(self._levels.read_text().split()))) if self._levels.exists() else ()

    def close(self) -> None:
        """Close the sandboxes."""
        while self._sandboxes:
            self._sandboxes.popitem()[1].close()

    def load_or_examine(
        self,
        stage: str,
        kind: type[Record],
        keys: dict[str, str],
        examine: Callable[[list[str]], Iterator[tuple[str, Record]]],
        *,
        journal: str,
    ) -> JournalRecords[Record]:
        """Return a record for each problem: from the journal if it has one, otherwise by examining the problem now.

        keys      fingerprints of everything that a problem's record depends on, by the id of the problem
        examine   examines the problems with these ids and yields (id, record) in any order; each is journaled at once
        journal   name of the file in the work folder
        """
        with ResultJournal(self.folder / journal) as cached:
            missing = [id for id, key in keys.items() if key not in cached]
            done = len(keys) - len(missing)
            self.progress(stage, done, len(keys))
            for id, record in examine(missing) if missing else ():
                cached.add(keys[id], to_json(record))
                done += 1
                self.progress(stage, done, len(keys))
            return cached.records(keys, lambda data: from_json(kind, data))

    def add_update(self, records: Mapping[str, Record], apply: Callable[[Problem, Record], Problem]) -> None:
        """Apply a function to each problem loaded from now on that has a record."""
        self._updates.append((records, apply))

    def counts(
        self, stages: Sequence[str], kept: Mapping[str, int], verified: Mapping[str, int]
    ) -> dict[str, SourceCounts]:
        """Count what became of the rows of each source. The parameters have the same meaning as in source_counts."""
        return source_counts(self.sources, self._read, self.rejections, kept, verified, stages)

    @contextmanager
    def measure_step(self, step: str) -> Iterator[None]:
        """Measure and record how long a step of the build takes."""
        start = time.monotonic()
        yield
        self.seconds[step] = round(time.monotonic() - start, 3)
        log.info("%s took %.1f s", step, self.seconds[step])


def source_counts(
    sources: Sequence[str],
    read: Mapping[str, int],
    rejections: Iterable[Rejection],
    kept: Mapping[str, int],
    verified: Mapping[str, int],
    stages: Sequence[str],
) -> dict[str, SourceCounts]:
    """Count what became of the rows of each source.

    read, kept, verified: numbers of rows by source
    stages: the words that name stages in rejections, in the order in which the stages run
    """
    rejected: dict[str, dict[str, dict[str, int]]] = {name: {} for name in sources}
    for rejection in sorted(rejections, key=lambda r: (stages.index(r.stage), r.reason)):
        by_reason = rejected[rejection.source].setdefault(rejection.stage, {})
        by_reason[rejection.reason] = by_reason.get(rejection.reason, 0) + 1
    return {
        name: SourceCounts(read.get(name, 0), rejected[name], kept.get(name, 0), verified.get(name, 0))
        for name in sources
    }
