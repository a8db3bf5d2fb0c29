"""The build of a verified and deduplicated dataset from raw records; `build` lists the steps.

    read and filter in shards -> drop repeated ids -> the stages, one after another (curate/stages) -> write

Problems and records are on disk, in a folder for each shard. Memory holds one shard or one row, and less than 100 bytes
per row. Processes read shards, and prepare their rows for writing, in parallel. This process compares rows of different
shards, and merges the prepared parts. A restarted build reads only incomplete shards and computes only missing records.
"""

import os
import platform
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from curate import ingestion
from curate.build_state import BuildState, count_by_source, measure_step
from curate.dataset import card, output_folder, writer
from curate.dataset.digests import RowHasher
from curate.errors import CurateError
from curate.ingestion import check_not_empty, find_source_tables, read_and_filter, source_names
from curate.json_records import to_json
from curate.manifest import (
    BuildInfo,
    InputFile,
    Machine,
    Manifest,
    Plan,
    SourceCounts,
    SourceLocation,
    add_name_and_date,
)
from curate.options import BuildOptions
from curate.problem import Rejection
from curate.progress import Progress, ignore_progress
from curate.reading.location import LocationSpec
from curate.reading.tables import TableFiles, compute_size_bytes, hash_path
from curate.recipe import create_build_recipe
from curate.report.report_files import write_report
from curate.shards import Shard, ShardPool, plan_shards, read_shard, remove_unfinished
from curate.sources.generic import FieldsWithoutValues
from curate.stage import ProblemStage, Stage
from curate.stages import default_stages
from curate.stages.decontaminate import DecontaminationStage
from curate.stages.deduplicate import DeduplicationStage
from curate.work import SHARDS, is_full_disk
from sandbox import Package, SandboxError, SandboxOptions
from sandbox.extras import DISTRIBUTION, find_installed_version

__all__ = ["BuildOptions", "build", "read_and_filter", "source_names", "dry_run"]

_THIS_MACHINE = SandboxOptions()
_PACKAGES = ("curate-code", "datasketch", "numpy", "pyarrow", "xxhash")


def build(
    locations: Sequence[tuple[str, LocationSpec]],
    out: Path,
    options: BuildOptions,
    *,
    against: Sequence[str] = (),
    stages: Sequence[Stage] | None = None,
    sandbox: SandboxOptions = _THIS_MACHINE,
    overwrite: bool = False,
    progress: Progress = ignore_progress,
) -> Manifest:
    """Build the dataset of the named sources in the folder `out` and return its manifest.

    locations  (name, location) of each source; a location is a string, or a table with `location` and the options of
               the source. Of equally good duplicates, the one from the first source stays
    against    evaluation sets whose items no row may contain, in the form of `--against`; if you pass stages, pass the
               sets to default_stages instead
    stages     the steps between reading and writing, in order; None: default_stages(options, against)
    sandbox    options of the sandbox, which do not affect the dataset; default: on this machine
    overwrite  whether to replace an existing dataset in the folder

    Does nothing if the folder has the finished dataset of these inputs and options. Raises CurateError if an input, the
    folder or the sandbox fails, and ValueError for an invalid combination of stages.
    """
    if sandbox.backend == "http":
        raise CurateError(
            "a build sets the seed of its programs, but a service has one seed for all its clients; choose the backend "
            "local, docker or ray"
        )
    tables = find_source_tables(locations)
    recipe = create_build_recipe(locations, tables, options, against, sandbox.packages) if stages is None else None
    stages = default_stages(options, against) if stages is None else _check_stages(stages, against)
    with _explain_errors(out):
        packages = sandbox.find_packages()
    plan = _build_plan(tables, options, stages, packages)
    finished = output_folder.find_finished_manifest(out, plan, overwrite=overwrite)
    if finished is not None:
        return finished
    for name, table in tables:
        check_not_empty(name, table)
    with _explain_errors(out), output_folder.open_work_folder(out, plan, overwrite=overwrite) as work:
        seconds: dict[str, float] = {}
        resumed = (work / SHARDS).exists()
        pool = ShardPool(sandbox, sum(file.bytes or 0 for files in plan.inputs.values() for file in files))
        with measure_step("read", seconds):
            shards = _read_shards(tables, options, stages, work / SHARDS, pool, progress)
        names = [name for name, _ in tables]
        with BuildState(
            work, shards, names, stages, open_sandbox=sandbox.open, pool=pool, progress=progress, resumed=resumed
        ) as state:
            state.drop_repeated_ids()
            for stage in stages:
                with measure_step(stage.name, seconds):
                    stage.run(state)
            final = work / "final"
            with measure_step("write", seconds):
                hasher, counts = _write_tables(state, final)
            manifest = Manifest(
                plan=plan,
                content_hash=hasher.content_hash,
                reward_hash=hasher.reward_hash,
                counts=counts,
                decontamination=state.outputs.decontamination,
                build=_collect_build_info(state, tables, sandbox, packages),
                seconds=seconds,
                recipe=recipe,
            )
            manifest = add_name_and_date(manifest, out)
            card.write(manifest, final)
            write_report(final, manifest, state.outputs.duplicates)
        return output_folder.commit_output(work, out, manifest)


def dry_run(
    locations: Sequence[tuple[str, LocationSpec]],
    options: BuildOptions,
    *,
    progress: Progress = ignore_progress,
    against: Sequence[str] = (),
) -> tuple[dict[str, SourceCounts], list[Rejection]]:
    """Read and filter the rows without executing or writing anything. Return the counts, and the rejections by id.

    Raises CurateError as `build` does.
    """
    tables = find_source_tables(locations)
    default_stages(options, against)  # raises CurateError for an invalid evaluation set
    read: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    rejected: Counter[tuple[str, str, str]] = Counter()
    rejections: list[Rejection] = []
    for item in read_and_filter(tables, options):
        read[item.source] += 1
        progress("read", read.total(), None)
        if isinstance(item, Rejection):
            rejections.append(item)
            rejected[item.source, item.stage, item.reason] += 1
        else:
            kept[item.source] += 1
    counts = count_by_source([name for name, _ in tables], read, rejected, kept, {}, ingestion.STAGES)
    return counts, sorted(rejections, key=lambda rejection: rejection.id)


def _check_stages(stages: Sequence[Stage], against: Sequence[str]) -> list[Stage]:
    names = ["read", *(stage.name for stage in stages), "write"]
    repeated = [name for name, n in Counter(names).items() if n > 1]
    if repeated:
        raise ValueError(f"two steps of the build have the name {repeated[0]!r}; rename one of them")
    if against:
        raise ValueError(
            "`against` has no effect on custom stages; pass the evaluation sets to default_stages(options, against)"
        )
    return list(stages)


def _build_plan(
    tables: Sequence[tuple[str, TableFiles]],
    options: BuildOptions,
    stages: Sequence[Stage],
    packages: tuple[Package, ...],
) -> Plan:
    inputs = {
        name: tuple(InputFile(file.name, compute_size_bytes(file), hash_path(file)) for file in table.files)
        for name, table in tables
    }
    configuration = {
        # A list, because the order of the sources decides between duplicates, and keys of a JSON object are unordered.
        "sources": [name for name, _ in tables],
        "source_options": {name: table.options for name, table in tables if table.options},
        **to_json(options),
    }
    described = _serialize_stages(stages)
    if described != _serialize_stages(default_stages(options)):
        configuration["stages"] = described
    if packages:
        configuration["packages"] = to_json(packages)
    evaluations = [item for stage in stages if isinstance(stage, DecontaminationStage) for item in stage.evaluations]
    against = tuple(evaluation.manifest_entry for evaluation in evaluations)
    return Plan(find_installed_version(DISTRIBUTION) or "not installed", inputs, configuration, against)


def _serialize_stages(stages: Sequence[Stage]) -> Any:
    return [{"name": stage.name, **to_json(stage.options)} for stage in stages]


def _read_shards(
    tables: Sequence[tuple[str, TableFiles]],
    options: BuildOptions,
    stages: list[Stage],
    folder: Path,
    pool: ShardPool,
    progress: Progress,
) -> list[Shard]:
    """Read, filter and sketch the incomplete shards.

    Raises CurateError for an unreadable file, and for a mapped field without a value in any row.
    """
    folder.mkdir(exist_ok=True)
    remove_unfinished(folder)
    shards = plan_shards(tables, options, folder)
    needs_sketches = any(isinstance(stage, DeduplicationStage) for stage in stages)
    # Reading a shard requires no other stages, and pickling their evaluation sets is slow.
    problem_stages = [stage if isinstance(stage, ProblemStage) else None for stage in stages]
    missing: dict[str, set[str]] = {}
    n_rows = 0
    shard_progress = progress if len(shards) == 1 else ignore_progress
    calls = [(shard, options, problem_stages, needs_sketches, shard_progress) for shard in shards]
    for index, (n_read, fields) in pool.map(read_shard, calls):
        n_rows += n_read
        progress("read", n_rows, None)
        source = shards[index].source
        missing[source] = missing.get(source, set(fields)) & fields
    for name, table in tables:
        if missing[name]:
            raise FieldsWithoutValues(table, frozenset(missing[name]))
    return shards


def _write_tables(state: BuildState, final: Path) -> tuple[RowHasher, dict[str, SourceCounts]]:
    """Write all tables; return the hashes of the rows, and the counts by source and result."""
    shutil.rmtree(final, ignore_errors=True)  # incomplete folder of a killed build
    hasher, kept, verified = state.write_tables(final)
    for folder, (table, columns) in state.outputs.tables.items():
        writer.write_table(iter(table), columns, final / folder)
    stage_names = [*ingestion.STAGES, *(stage.rejection_name or stage.name for stage in state.stages)]
    return hasher, state.count_rows(list(dict.fromkeys(stage_names)), kept, verified)


def _collect_build_info(
    state: BuildState, tables: Sequence[tuple[str, TableFiles]], sandbox: SandboxOptions, packages: tuple[Package, ...]
) -> BuildInfo:
    return BuildInfo(
        strength=state.outputs.test_strength,
        locations={name: SourceLocation(table.location, table.revision) for name, table in tables},
        workers=sandbox.workers,
        isolation=sandbox.isolation,
        levels=state.isolation_levels,
        backend=sandbox.backend,
        versions={name: find_installed_version(name) or "not installed" for name in _PACKAGES},
        machine=Machine(platform.python_version(), platform.platform(), os.cpu_count()),
        reference_cpu_seconds=round(state.outputs.reference_cpu_seconds, 3),
        executed_cpu_seconds=round(state.outputs.executed_cpu_seconds, 3),
        packages=packages,
    )


@contextmanager
def _explain_errors(out: Path) -> Iterator[None]:
    """Raise a CurateError with a remedy for a failure of the sandbox or the file system."""
    try:
        yield
    except SandboxError as error:
        raise CurateError(f"the sandbox cannot run: {error}. See `curate doctor`.") from error
    except (OSError, sqlite3.Error) as error:
        if isinstance(error, sqlite3.Error) and not is_full_disk(error):
            folder = out / output_folder.WORK / SHARDS
            raise CurateError(
                f"a work file in {folder} is damaged ({error}). Delete this folder, then run the same command again."
            ) from error
        reason = f"[Errno 28] {os.strerror(28)}" if isinstance(error, sqlite3.Error) else error
        raise CurateError(
            f"{reason}. Verified problems are saved in {out}; run the same command to continue."
        ) from error
