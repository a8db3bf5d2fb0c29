"""The shards of a build: ranges of rows to read, filter and sketch independently, each in a folder.

This process handles a single shard. Child processes handle several, or Ray tasks if all nodes have the inputs and the
output folder under the same paths. An atomic rename creates the folder of a shard, so an existing folder is complete.
"""

import json
import logging
import multiprocessing
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

from curate.dedup.sketches import write_sketches
from curate.errors import CurateError
from curate.ingestion import divide_source, read_table
from curate.options import BuildOptions
from curate.problem import Problem
from curate.progress import Progress
from curate.reading.tables import TableFiles
from curate.sources.generic import FieldsWithoutValues
from curate.stage import BuildRow, Stage, find_first_pending
from curate.work import FILE, create_work_file
from sandbox import SandboxOptions

log = logging.getLogger(__name__)

ROWS_PER_SHARD = 50_000
MAX_SHARDS = 128  # bounds the open files, since the merge of rows opens one per shard
_SUMMARY = "summary.json"
_MIN_POOL_BYTES = 32 * 2**20  # for smaller inputs, starting processes takes longer than reading

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Shard:
    """A range of rows of a source. table: its files and the range; folder: folder of the shard's work file"""

    source: str
    table: TableFiles
    folder: Path

    @property
    def work_file(self) -> Path:
        return self.folder / FILE


def plan_shards(
    tables: Sequence[tuple[str, TableFiles]], options: BuildOptions, folder: Path, *, max_rows: int = ROWS_PER_SHARD
) -> list[Shard]:
    """Divide the sources into shards, in the order of their rows."""
    while True:
        parts = [(name, part) for name, table in tables for part in divide_source(name, table, options, max_rows)]
        if len(parts) <= MAX_SHARDS or len(parts) <= len(tables):
            return [Shard(name, part, folder / f"{number:05}") for number, (name, part) in enumerate(parts)]
        max_rows *= 2


def read_shard(
    shard: Shard, options: BuildOptions, stages: Sequence[Stage | None], needs_sketches: bool, progress: Progress
) -> tuple[int, frozenset[str]]:
    """Read, filter and sketch the rows of a shard, unless its folder exists.

    stages          the stages of the build, with None for stages that compare problems; the work file records the
                    first stage that must examine each problem
    needs_sketches  whether a stage compares statements with each other

    Returns the number of rows, and the mapped fields without a value in any row. Raises CurateError for an unreadable
    file.
    """
    if not shard.folder.exists():
        _write_shard(shard, options, stages, needs_sketches, progress)
    n_rows, fields = json.loads((shard.folder / _SUMMARY).read_text())
    return n_rows, frozenset(fields)


def _write_shard(
    shard: Shard, options: BuildOptions, stages: Sequence[Stage | None], needs_sketches: bool, progress: Progress
) -> None:
    without_values: frozenset[str] = frozenset()
    n_rows = 0
    with create_work_file(shard.folder) as new:

        def iter_problems() -> Iterator[tuple[int, Problem]]:
            nonlocal without_values, n_rows
            try:
                for item, row in read_table(shard.source, shard.table, options):
                    pending = find_first_pending(BuildRow(item), stages) if isinstance(item, Problem) else None
                    new.add(item, row, pending)
                    n_rows += 1
                    progress("read", n_rows, None)
                    if isinstance(item, Problem):
                        yield n_rows - 1, item
            except FieldsWithoutValues as error:
                without_values = error.names

        if needs_sketches:
            write_sketches(iter_problems(), new.folder)
        else:
            for _ in iter_problems():
                pass
        (new.folder / _SUMMARY).write_text(json.dumps([n_rows, sorted(without_values)]))


class ShardPool:
    """A pool that calls a function for several shards in parallel.

    sandbox_options  backend of the calls, and number of processes (its workers)
    n_bytes          size of the inputs
    """

    def __init__(self, sandbox_options: SandboxOptions, n_bytes: int) -> None:
        self._options = sandbox_options
        self._n_bytes = n_bytes

    def map(
        self, function: Callable[..., Result], calls: Sequence[tuple[Any, ...]], *, local_only: bool = False
    ) -> Iterator[tuple[int, Result]]:
        """Yield the index and the result of function(*call) for each call, in order of completion.

        The first argument of each call is its shard. A single call, and all calls for small inputs, run in this
        process. Otherwise the function, its arguments and its result are pickled.

        local_only: whether the calls must run on this machine, where the work files are open

        Raises the exceptions of the function, and CurateError if a process is killed.
        """
        if len(calls) == 1 or self._n_bytes < _MIN_POOL_BYTES:
            yield from enumerate(function(*call) for call in calls)
            return
        if self._options.backend == "ray" and not local_only:
            with _connect_to_ray(self._options.address or "auto") as ray:
                if _exist_on_all_nodes(ray, [call[0] for call in calls]):
                    yield from _map_on_ray(ray, function, calls)
                    return
            log.warning("not all nodes have the inputs and the output folder; reading the shards on this machine")
        cores = self._options.workers or len(os.sched_getaffinity(0))
        yield from _map_in_processes(function, calls, min(cores, len(calls)))


def _map_in_processes(
    function: Callable[..., Result], calls: Sequence[tuple[Any, ...]], n_processes: int
) -> Iterator[tuple[int, Result]]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["curate.shards", "pandas"])  # pyarrow imports pandas on first use
    before = set(multiprocessing.active_children())
    executor = ProcessPoolExecutor(n_processes, context, initializer=_watch_parent)
    try:
        running = {executor.submit(function, *call): index for index, call in enumerate(calls)}
        for future in as_completed(running):
            yield running[future], future.result()
    except BrokenProcessPool:
        raise CurateError(
            "the process of a shard was killed, perhaps by the OOM killer. Finished shards are saved; run the same "
            "command to continue, with fewer --workers to use less memory."
        ) from None
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        started: set[BaseProcess] = set(multiprocessing.active_children()) - before
        for process in started:
            process.terminate()
        for process in started:
            process.join()


def _watch_parent() -> None:
    """Start a thread that exits this process when the parent process exits."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback for Ctrl-C
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _exist_on_all_nodes(ray: Any, shards: Sequence["Shard"]) -> bool:
    """Return whether the shards' folder and files exist on all worker nodes of the cluster."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    paths = sorted({str(path) for shard in shards for path in (shard.folder.parent, *shard.table.files)})
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    results = []
    for node in nodes:
        strategy = NodeAffinitySchedulingStrategy(node, soft=False)
        results.append(ray.remote(num_cpus=0, scheduling_strategy=strategy)(_do_all_exist).remote(paths))
    return all(ray.get(results))


def _do_all_exist(paths: Sequence[str]) -> bool:
    return all(map(os.path.exists, paths))


def _map_on_ray(
    ray: Any, function: Callable[..., Result], calls: Sequence[tuple[Any, ...]]
) -> Iterator[tuple[int, Result]]:
    """Run a Ray task for each call. Ray retries tasks of lost nodes; a retry skips shards with a folder."""
    task = ray.remote(function).options(num_cpus=1)
    waiting = {task.remote(*call): index for index, call in enumerate(calls)}
    while waiting:
        done, _ = ray.wait(list(waiting), num_returns=1)
        for reference in done:
            try:
                result = ray.get(reference)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except ray.exceptions.RayError as error:
                raise CurateError(f"a Ray task failed: {error}. Run the same command to continue.") from None
            yield waiting.pop(reference), result


@contextmanager
def _connect_to_ray(address: str) -> Iterator[Any]:
    """Yield the module ray, connected to the cluster. An existing connection stays open."""
    import curate
    from sandbox.backends.ray import connect  # if Ray is missing, the error has the install command

    ray = import_module("ray")
    own = not ray.is_initialized()
    if own:
        connect(address, curate)
    try:
        yield ray
    finally:
        if own:
            ray.shutdown()


def remove_unfinished(folder: Path) -> None:
    """Remove incomplete shards of killed processes."""
    for path in folder.glob("*.new"):
        shutil.rmtree(path)
