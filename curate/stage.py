"""The interface of a stage: a step of a build that examines the remaining problems and rejects some of them.

A build runs a list of stages (`curate.stages.default_stages`). Most stages examine one problem at a time. They derive
from `ProblemStage`, with three methods: `key` returns the cache key of a problem's record, `examine` computes the
record, and `apply_record` updates or rejects the problem. A restarted build examines only problems without a record. A
stage that compares problems with each other derives from `Stage`.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from curate.judging import CaseFailure
from curate.problem import Problem, Rejection
from sandbox import Sandbox

Record = TypeVar("Record")
Build = Any  # a BuildState; its module imports this one, so an import would be circular
OpenSandbox = Callable[[int], Sandbox]  # returns the sandbox of a seed, which the build closes


@dataclass(frozen=True, slots=True)
class BuildRow:
    """A problem in a build, with the results of the stages so far.

    problem    the problem, updated by these stages
    rejection  None if the problem is kept
    failures   failures of its solutions on the most informative test; empty for none
    suspicion  reason to suspect that a test of a kept problem has several correct outputs; empty for none
    """

    problem: Problem
    rejection: Rejection | None = None
    failures: tuple[CaseFailure, ...] = ()
    suspicion: str = ""

    def update(self, **values: Any) -> "BuildRow":
        """Return the row with new values in fields of its problem. Raises ValueError for id, source and statement."""
        if fixed := values.keys() & {"id", "source", "statement"}:
            raise ValueError(f"a stage cannot change the {min(fixed)} of a problem; change it in the source")
        return replace(self, problem=replace(self.problem, **values))

    def reject(self, stage: str, reason: str, detail: str = "", cause: str = "") -> "BuildRow":
        """Return the row with this rejection, which replaces any earlier, less specific one."""
        return replace(self, rejection=Rejection(self.problem.id, self.problem.source, stage, reason, detail, cause))


class Stage(ABC):
    """A step of a build. Each object belongs to one build.

    name            unique name, for progress reports and the manifest's `seconds`
    rejection_name  value of the column `stage` in its rejections; empty for `name`
    """

    name: str
    rejection_name: str = ""

    @property
    def options(self) -> Mapping[str, Any]:
        """All options that affect the results of this stage, as JSON values; part of the dataset's plan."""
        return {}

    @abstractmethod
    def run(self, build: Build) -> None:
        """Examine the remaining problems, and reject some."""


class ProblemStage(Stage, Generic[Record]):
    """A stage that examines one problem at a time and keeps a record of the result.

    The methods must be pure functions: the build calls them in several processes, and again after a restart.

    record_type        a type supported by curate/json_records.py, such as a frozen dataclass, int or str
    seed               seed of the sandbox of `examine`; None if it executes no programs. Without a seed, several
                       processes examine the shards of a large build, so the class must be importable
    includes_rejected  whether the stage also examines problems rejected by earlier stages
    """

    record_type: type[Record]
    seed: int | None = None
    includes_rejected: bool = False

    @abstractmethod
    def key(self, row: BuildRow) -> str | None:
        """Return the cache key of this problem's record, a digest of all its inputs, or None to skip the problem."""

    @abstractmethod
    def examine(self, row: BuildRow, sandbox: OpenSandbox) -> Record:
        """Examine a problem. Several threads call this concurrently if the stage has a seed.

        sandbox: returns the sandbox of a seed; a SandboxError must propagate to the build, which retries
        """

    def apply_record(self, row: BuildRow, record: Record) -> BuildRow:
        """Return the row, updated or rejected according to its record."""
        return row

    def cpu_seconds(self, record: Record) -> float:
        """Return the CPU time of the programs executed for this record."""
        return 0.0

    def summarize(self, records: Iterable[Record], build: Build) -> None:
        """Add an aggregate of all records to the build's outputs."""

    def run(self, build: Build) -> None:
        """Examine the problems without a record, and update or reject each by its record."""
        build.examine(self)
        build.outputs.executed_cpu_seconds += sum(map(self.cpu_seconds, build.iter_records(self)))
        self.summarize(build.iter_records(self), build)


def find_first_pending(row: BuildRow, stages: Sequence[Stage | None], begin: int = 0) -> int | None:
    """Return the index of the first stage from `begin` on that must examine a problem; None if there is none."""
    for index, stage in enumerate(stages[begin:], start=begin):
        if not isinstance(stage, ProblemStage) or (row.rejection is not None and not stage.includes_rejected):
            continue
        if stage.key(row) is not None:
            return index
    return None


def compute_fingerprint(*content: Any) -> str:
    """Return the SHA-256 of these values as JSON."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
