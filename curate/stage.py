"""A stage of a build: a step that examines the remaining problems and rejects some of them.

A build is a list of stages (see `curate.stages.default_stages`); a custom stage is one more entry. Most stages examine
one problem at a time and derive from `ProblemStage`. The build keeps their record of each problem in a journal, so
after a kill only the problems without a record are examined. A stage that compares problems with each other derives
from `Stage`.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from curate.build_state import BuildState
from curate.dataset.journal import JournalRecords
from curate.problem import Problem, Rejection

Record = TypeVar("Record")


class Stage(ABC):
    """A step of a build. Each object belongs to one build.

    name: its name in progress reports and in the manifest's `seconds`; no two stages of a build have the same
    rejection_name: the value of the column `stage` for rows that it rejects; if this is empty, `name` is used
    """

    name: str
    rejection_name: str = ""

    @property
    def options(self) -> Mapping[str, Any]:
        """Everything that decides the results of this stage, as JSON values; it becomes part of the dataset's plan."""
        return {}

    def on_read(self, problem: Problem) -> None:  # noqa: B027 - most stages have nothing to do at this point
        """Receive a problem when it is read, before any stage has run."""

    @abstractmethod
    def run(self, build: BuildState) -> None:
        """Examine the problems in `build.ids` and reject those that must not stay."""


class ProblemStage(Stage, Generic[Record]):
    """A stage that examines one problem at a time and keeps a record of the result.

    record_type: a type that curate/json_records.py can write and read, such as a frozen dataclass, int or str
    records: the records by problem id, once the stage has run; each is read from the journal on access
    journal: name of the file that keeps the records; if this is empty, the name is made from that of the stage
    """

    record_type: type[Record]
    records: JournalRecords[Record]
    journal_name: str = ""

    def ids(self, build: BuildState) -> Iterable[str]:
        """Return the ids of the problems to consider, by default all problems that are left."""
        return build.ids

    @abstractmethod
    def fingerprint(self, id: str, build: BuildState) -> str | None:
        """Return the cache key of this problem's record, or None to skip the problem.

        If the journal has a record with this name, the record is used and the problem is not examined again.
        """

    @abstractmethod
    def examine(self, ids: list[str], build: BuildState) -> Iterator[tuple[str, Record]]:
        """Examine these problems, in a sandbox or not, and yield (id, record) as results arrive, in any order."""

    def apply_record(self, problem: Problem, record: Record) -> Problem:
        """Return the problem, updated from its record."""
        return problem

    def rejection(self, id: str, record: Record, build: BuildState) -> Rejection | None:
        """Return the rejection of the problem that has this record, or None if the problem stays."""
        return None

    def cpu_seconds(self, record: Record) -> float:
        """Return the CPU time of the programs that were executed for this record."""
        return 0.0

    def run(self, build: BuildState) -> None:
        """Examine problems that have no record in the journal yet, then update or reject each problem by its record."""
        keys = {id: key for id in self.ids(build) if (key := self.fingerprint(id, build)) is not None}
        self.records = build.load_or_examine(
            self.name,
            self.record_type,
            keys,
            lambda ids: self.examine(ids, build),
            journal=self.journal_name or f"{self.name.replace(' ', '_')}.jsonl",
        )
        # a record is read from disk whenever a problem is loaded
        if type(self).apply_record is not ProblemStage.apply_record:
            build.add_update(self.records, self.apply_record)
        rejections = []
        for id, record in self.records.items():
            build.outputs.executed_cpu_seconds += self.cpu_seconds(record)
            if rejection := self.rejection(id, record, build):
                rejections.append(rejection)
        build.reject(rejections)


def compute_fingerprint(*content: Any) -> str:
    """Return a name for these values, which json.dumps must accept. Only equal values have equal names."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
