"""A build in progress: its shards, and the operations of stages on their problems."""

import heapq
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from curate.dataset.digests import RowHasher, write_digests
from curate.dataset.writer import REJECTED_COLUMNS, make_rejected_row, merge_parts, write_part
from curate.errors import CurateError
from curate.ingestion import build_repeated_id_rejection, has_repeated_problems
from curate.json_records import from_json, to_json
from curate.judging import map_with_retries
from curate.manifest import SetCounts, SourceCounts, StrengthSummary
from curate.problem import COLUMNS, Problem, Rejection, decode_problem, to_row
from curate.progress import Progress
from curate.report.duplicate_section import DuplicateSection
from curate.shards import Shard, ShardPool
from curate.stage import BuildRow, ProblemStage, Stage, find_first_pending
from curate.work import WorkFile
from sandbox import Sandbox
from sandbox.closeable import Closeable

log = logging.getLogger(__name__)

Record = TypeVar("Record")
Ref = TypeVar("Ref")

KEPT, REJECTED = "data.arrow", "rejected.arrow"  # files in a shard's folder, with its parts of two tables
REJECTED_KEY = ("id", "stage", "reason", "detail")  # sort key of the table `rejected`


class Address(NamedTuple):
    """The address of a row: the index of its shard, and its number in the shard."""

    shard: int
    number: int


@dataclass(slots=True)
class BuildOutputs:
    """The outputs of stages, other than rows of `data` and `rejected`.

    tables      rows and columns of other tables, by folder name; columns are (type, meaning) by name
    duplicates  the report's section on removed duplicates
    """

    tables: dict[str, tuple[Iterable[dict[str, Any]], dict[str, tuple[str, str]]]] = field(default_factory=dict)
    duplicates: DuplicateSection | None = None
    decontamination: dict[str, SetCounts] = field(default_factory=dict)
    test_strength: StrengthSummary | None = None
    reference_cpu_seconds: float = 0.0
    executed_cpu_seconds: float = 0.0


class BuildState(Closeable):
    """A build in progress. Rows and records are on disk.

    folder        the work folder, deleted at the end of the build
    shards        the shards, with complete work files
    files         the open work files of the shards, in the same order
    sources       names of the sources; of equally good duplicates, the row of the first source stays
    stages        all stages of the build, in order
    open_sandbox  opens a sandbox with a seed
    pool          calls functions for several shards in parallel
    resumed       whether an earlier process began the build
    outputs       outputs of stages, other than rows
    """

    def __init__(
        self,
        folder: Path,
        shards: Sequence[Shard],
        sources: Sequence[str],
        stages: Sequence[Stage],
        *,
        open_sandbox: Callable[..., Sandbox],
        pool: ShardPool,
        progress: Progress,
        resumed: bool,
    ) -> None:
        self.folder = folder
        self.shards = tuple(shards)
        self.sources = tuple(sources)
        self.stages = list(stages)
        self.progress = progress
        self.outputs = BuildOutputs()
        self._open_sandbox = open_sandbox
        self._pool = pool
        self._resumed = resumed
        self._levels_file = folder / "levels"  # isolation levels, including those of earlier processes
        self._sandboxes: dict[int, Sandbox] = {}  # by seed
        self._lock = threading.Lock()
        self.files: list[WorkFile] = []
        with ExitStack() as opened:
            for shard in shards:
                self.files.append(opened.enter_context(WorkFile(shard.work_file)))
            self._resources = opened.pop_all()

    def close(self) -> None:
        """Close the sandboxes and the work files."""
        while self._sandboxes:
            self._sandboxes.popitem()[1].close()
        self._resources.close()

    def get_sandbox(self, seed: int) -> Sandbox:
        """Return a sandbox on the workers of this build. It stays open for later stages with the same seed."""
        with self._lock:
            if seed not in self._sandboxes:
                self._sandboxes[seed] = self._open_sandbox(seed=seed)
                with self._levels_file.open("a") as file:
                    file.write(f"{self._sandboxes[seed].level}\n")
            return self._sandboxes[seed]

    @property
    def isolation_levels(self) -> tuple[str, ...]:
        """The isolation levels of all sandboxes of this build, sorted."""
        return tuple(sorted(set(self._levels_file.read_text().split()))) if self._levels_file.exists() else ()

    def drop_repeated_ids(self) -> None:
        """Reject rows whose id occurs in an earlier shard; delete them if the source has several rows per problem."""
        divided = {source for source, n in Counter(shard.source for shard in self.shards).items() if n > 1}
        indexes = [index for index, shard in enumerate(self.shards) if shard.source in divided]
        repeated_rows: list[Address] = []
        for _, group in groupby(self._merge_by_id(lambda file: file.iter_ids(), indexes), key=lambda entry: entry[0]):
            repeated_rows += [address for _, address in group][1:]
        for shard, number in repeated_rows:
            file, rejected = self.files[shard], self.files[shard].load_rejection(number)
            if has_repeated_problems(self.shards[shard].source):
                file.delete_row(number)
            else:
                file.replace_by_rejection(
                    number, build_repeated_id_rejection(rejected[1] if rejected else file.load(number))
                )

    def load(self, address: Address) -> BuildRow:
        """Return a problem with the results of its records and its rejection, if any."""
        return load_row(self.files[address.shard], address.number, self.stages)

    def load_original(self, address: Address) -> Problem:
        """Return a problem without the results of its records."""
        return self.files[address.shard].load(address.number)

    def examine(self, stage: ProblemStage[Any]) -> None:
        """Examine the problems without a record of this stage, and save each record immediately."""
        index = self.stages.index(stage)
        if self._resumed:
            for file in self.files:
                _discard_stale_records(file, self.stages, index)
        pending = [file.count_pending(index, include_rejected=stage.includes_rejected) for file in self.files]
        done = sum(file.count_records(stage.name) for file in self.files)
        total = done + sum(pending)
        if total:
            self.progress(stage.name, done, total)
        if done == total:
            return
        if stage.seed is None:
            calls = [(self.shards[shard], self.stages, index) for shard, n in enumerate(pending) if n]
            for _, n_examined in self._pool.map(examine_shard, calls, local_only=True):
                done += n_examined
                self.progress(stage.name, done, total)
            return
        rows = ((address, self.load(address)) for address in self._iter_pending(stage, index))
        sandbox = self.get_sandbox(stage.seed)
        for (address, row), record in map_with_retries(
            rows, lambda entry: stage.examine(entry[1], self.get_sandbox), sandbox
        ):
            _store_record(self.files[address.shard], address.number, row, record, self.stages, index)
            done += 1
            self.progress(stage.name, done, total)

    def _iter_pending(self, stage: ProblemStage[Any], index: int) -> Iterator[Address]:
        """Yield the problems that a stage must examine. Memory holds the list of one shard at a time."""
        for shard, file in enumerate(self.files):
            for number in file.list_pending(index, include_rejected=stage.includes_rejected):
                yield Address(shard, number)

    def is_problem(self, address: Address) -> bool:
        """Return whether a row is a problem, rather than a rejection by the reader."""
        return self.files[address.shard].has_problem(address.number)

    def load_record(self, stage: ProblemStage[Record], address: Address) -> Record | None:
        """Return a stage's record of a problem; None if there is none."""
        found = self.files[address.shard].load_records(address.number).get(stage.name)
        return None if found is None else from_json(stage.record_type, json.loads(found[1]))

    def iter_records(self, stage: ProblemStage[Record]) -> Iterator[Record]:
        """Yield all records of a stage."""
        for file in self.files:
            for _, text in file.iter_records(stage.name):
                yield from_json(stage.record_type, json.loads(text))

    def reject(self, stage: Stage, rejections: Iterable[tuple[Address, Rejection]]) -> None:
        """Reject problems after a comparison with others."""
        by_shard = sorted(rejections, key=lambda entry: entry[0].shard)
        for shard, group in groupby(by_shard, key=lambda entry: entry[0].shard):
            numbered = [(address.number, rejection) for address, rejection in group]
            self.files[shard].reject(self.stages.index(stage), numbered)

    def iter_problems(self, stage: Stage | None = None) -> Iterator[Address]:
        """Yield the problems that no earlier stage rejected, sorted by id. stage: None for the end of the build"""
        index = len(self.stages) if stage is None else self.stages.index(stage)
        return (address for _, address in self._merge_by_id(lambda file: file.iter_remaining_ids(index)))

    def iter_examined(self, stage: ProblemStage[Any]) -> Iterator[Address]:
        """Yield the kept problems with a record of this stage, sorted by id."""
        return (address for _, address in self._merge_by_id(lambda file: file.iter_examined_ids(stage.name)))

    def count_problems(self) -> int:
        """Return the number of kept problems."""
        return sum(file.count("rejected_by IS NULL") for file in self.files)

    def iter_rejections(self, stage: Stage | None = None) -> Iterator[tuple[Address, Rejection]]:
        """Yield the rejections by a stage, in the order of the table `rejected`. stage: None for all stages"""
        index = None if stage is None else self.stages.index(stage)

        def iter_shard(shard: int) -> Iterator[tuple[bytes, Address, Rejection]]:
            for id, number, rejection in self.files[shard].iter_rejections(index):
                yield id, Address(shard, number), rejection

        merged = heapq.merge(*map(iter_shard, range(len(self.files))), key=lambda entry: entry[:2])
        return ((address, rejection) for _, address, rejection in _sort_rejections(merged))

    def write_tables(self, folder: Path) -> tuple[RowHasher, dict[str, int], dict[str, int]]:
        """Write `data/`, `rejected/` and `digests.parquet` into a folder.

        Returns the hashes of the rows, and the numbers of kept and of verified rows by source.
        """
        kept: Counter[str] = Counter()
        verified: Counter[str] = Counter()
        total = self.count_problems()
        # Rows depend on no other stages, and pickling their evaluation sets is slow.
        stages = [stage for stage in self.stages if isinstance(stage, ProblemStage)]
        calls = [(shard, stages) for shard in self.shards]
        for index, (n_kept, n_verified) in self._pool.map(write_table_parts, calls, local_only=True):
            kept[self.shards[index].source] += n_kept
            verified[self.shards[index].source] += n_verified
            self.progress("write", kept.total(), total)
        hasher, n_merged = RowHasher(), 0
        parts = [shard.folder / KEPT for shard in self.shards]
        for n_rows in merge_parts(parts, ("id",), COLUMNS, folder / "data", hasher):
            n_merged += n_rows
            self.progress("merge", n_merged, total)
        parts = [shard.folder / REJECTED for shard in self.shards]
        for _ in merge_parts(parts, REJECTED_KEY, REJECTED_COLUMNS, folder / "rejected", hasher):
            pass
        write_digests(hasher, folder)
        return hasher, kept, verified

    def count_rows(
        self, stages: Sequence[str], n_kept: Mapping[str, int], n_verified: Mapping[str, int]
    ) -> dict[str, SourceCounts]:
        """Count the rows of each source by result. The parameters have the same meaning as in count_by_source."""
        n_read: Counter[str] = Counter()
        n_rejected: Counter[tuple[str, str, str]] = Counter()
        for shard, file in zip(self.shards, self.files, strict=True):
            n_read[shard.source] += file.count()
            for stage, reason, n in file.count_rejections():
                n_rejected[shard.source, stage, reason] += n
        return count_by_source(self.sources, n_read, n_rejected, n_kept, n_verified, stages)

    def _merge_by_id(
        self, rows: Callable[[WorkFile], Iterator[tuple[bytes, int]]], shards: Sequence[int] | None = None
    ) -> Iterator[tuple[bytes, Address]]:
        """Merge the rows of shards by id; rows with the same id keep their reading order."""

        def iter_shard(shard: int) -> Iterator[tuple[bytes, Address]]:
            return ((id, Address(shard, number)) for id, number in rows(self.files[shard]))

        return heapq.merge(*map(iter_shard, range(len(self.files)) if shards is None else shards))


def examine_shard(shard: Shard, stages: list[Stage], index: int) -> int:
    """Examine a shard's problems without a record of this stage, and return their number.

    index: index of the stage in `stages`; the stage must execute no programs
    """
    stage = stages[index]
    assert isinstance(stage, ProblemStage)
    with WorkFile(shard.work_file) as file:
        pending = sorted(file.list_pending(index, include_rejected=stage.includes_rejected))
        for number in pending:
            row = load_row(file, number, stages)
            _store_record(file, number, row, stage.examine(row, _refuse_sandbox), stages, index)
    return len(pending)


def write_table_parts(shard: Shard, stages: Sequence[ProblemStage[Any]]) -> tuple[int, int]:
    """Write the kept and the rejected rows of a shard, as parts of two tables.

    stages: the build's stages of type ProblemStage

    Returns the numbers of kept and of verified rows.
    """
    verified = 0
    with WorkFile(shard.work_file) as file:

        def iter_kept_rows() -> Iterator[dict[str, Any]]:
            nonlocal verified
            for number, encoded, is_examined in file.iter_kept_problems():
                problem = load_row(file, number, stages).problem if is_examined else decode_problem(encoded)
                verified += problem.verified
                yield to_row(problem)

        rejections = (rejection for _, _, rejection in _sort_rejections(file.iter_rejections()))
        write_part(iter_kept_rows(), COLUMNS, shard.folder / KEPT, table="data")
        write_part(map(make_rejected_row, rejections), REJECTED_COLUMNS, shard.folder / REJECTED, table="rejected")
        return file.count("rejected_by IS NULL"), verified


def load_row(file: WorkFile, number: int, stages: Sequence[Stage]) -> BuildRow:
    """Return a problem with the results of its records and its rejection, if any."""
    rejected = file.load_rejection(number)
    return replace(_replay(file, number, stages), rejection=rejected and rejected[1])


def _replay(file: WorkFile, number: int, stages: Sequence[Stage]) -> BuildRow:
    """Load a problem and apply its records of these stages."""
    row = BuildRow(file.load(number))
    records = file.load_records(number)
    for stage in stages:
        if stage.name in records and isinstance(stage, ProblemStage):
            row = stage.apply_record(row, from_json(stage.record_type, json.loads(records[stage.name][1])))
    return row


def _store_record(file: WorkFile, number: int, row: BuildRow, record: Any, stages: list[Stage], index: int) -> None:
    stage = stages[index]
    assert isinstance(stage, ProblemStage)
    key = stage.key(row) or ""
    updated = stage.apply_record(row, record)
    rejection = file.load_rejection(number)
    if updated.rejection != row.rejection:
        rejection = None if updated.rejection is None else (index, updated.rejection)
    file.save_result(
        number,
        updated.problem,
        record=(stage.name, key, json.dumps(to_json(record))),
        next_stage=find_first_pending(updated, stages, index + 1),
        rejection=rejection,
    )


def _discard_stale_records(file: WorkFile, stages: list[Stage], index: int) -> None:
    stage = stages[index]
    assert isinstance(stage, ProblemStage)
    for number, key in file.list_keys(stage.name):
        if stage.key(_replay(file, number, stages[:index])) != key:
            file.discard_record(number, stage.name, index)


def _sort_rejections(rows: Iterable[tuple[bytes, Ref, Rejection]]) -> Iterator[tuple[bytes, Ref, Rejection]]:
    """Sort rejections by id, stage, reason and detail; the input is sorted by id."""
    for _, group in groupby(rows, key=lambda entry: entry[0]):
        yield from sorted(group, key=lambda entry: (entry[2].stage, entry[2].reason, entry[2].detail))


def _refuse_sandbox(seed: int) -> Sandbox:
    raise CurateError("a stage that executes programs needs a seed: set `seed` in its class")


@contextmanager
def measure_step(step: str, seconds: dict[str, float]) -> Iterator[None]:
    """Add the wall time of the block to `seconds`, under the name of the step."""
    start = time.monotonic()
    yield
    seconds[step] = round(time.monotonic() - start, 3)
    log.info("%s took %.1f s", step, seconds[step])


def count_by_source(
    sources: Sequence[str],
    n_read: Mapping[str, int],
    n_rejected: Mapping[tuple[str, str, str], int],
    n_kept: Mapping[str, int],
    n_verified: Mapping[str, int],
    stages: Sequence[str],
) -> dict[str, SourceCounts]:
    """Combine numbers of rows into counts for each source.

    n_read, n_kept, n_verified  numbers of rows by source
    n_rejected                  numbers of rows by source, stage and reason
    stages                      names of stages, as in rejections, in running order
    """
    by_source: dict[str, dict[str, dict[str, int]]] = {name: {} for name in sources}
    for source, stage, reason in sorted(n_rejected, key=lambda entry: (stages.index(entry[1]), entry[2])):
        by_source[source].setdefault(stage, {})[reason] = n_rejected[source, stage, reason]
    return {
        name: SourceCounts(n_read.get(name, 0), by_source[name], n_kept.get(name, 0), n_verified.get(name, 0))
        for name in sources
    }
