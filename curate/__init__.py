"""Turn raw programming problems into a verified, deduplicated, documented dataset.

    from pathlib import Path
    from curate import BuildOptions, build

    manifest = build([("taco", "data/taco")], Path("out"), BuildOptions())

The folder, from the bottom up:

    errors           the exceptions of curate
    progress         progress reports from long-running work to its caller
    json_records     dataclasses in and out of JSON
    manifest         the inputs and options of a finished dataset, and the counts of its rows
    problem          a problem, which is one row of a dataset, and the rejection of a row
    trust            the rows that may be trained on, measured and exported
    text/            words, n-grams, and text for a terminal
    reading/         files, tables and values of raw data; dialects of tests; solutions; prompt templates
    sources/         a file for each source, which turns its raw rows into problems
    judging          executing programs for datasets: costs, failures, outputs and retries
    strength/        test strength: how many wrong programs the tests reject
    options          the options of a build
    recipe           everything that decides how datasets are made, from raw rows to exports
    ingestion        reading sources and applying filters
    work             the work file of a shard: its rows, the records of stages, and rejections
    dataset/         a dataset on disk: its rows, card and work folder; inspecting, comparing and pushing it
    dedup/           near-duplicates by MinHash and exact Jaccard
    report/          report.json and report.html
    derivation       datasets made from others by removing rows
    difficulty/      solve rates of models, and bands of solve rates
    decontamination/ rows that contain items of evaluation sets
    condition        conditions on rows, such as `verified and n_tests >= 8`
    row_filter       a copy with only the rows that fulfil conditions
    splitting        parts for training and validation without near-duplicates across them
    merging          several datasets merged into one
    stage            the interface of a stage of a build
    shards           ranges of rows that are read, filtered and sketched in parallel
    build_state      a build in progress, which the stages work on
    stages/          the stages of a build, one file each
    exports/         export formats, a file for each trainer or tool
    pipeline         the build from beginning to end
    audit            rerunning the references of a dataset, or the solutions of a source, on their tests
    probe/           tests of other judges of code, for `curate probe`
    recipes/         recipes as files, and running a whole recipe
    commands/        the commands, one file each
    __main__         `python -m curate`
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from curate.build_state import BuildState
    from curate.dataset.output_folder import read_manifest
    from curate.errors import CurateError
    from curate.manifest import Manifest
    from curate.options import BuildOptions
    from curate.pipeline import build, dry_run, source_names
    from curate.problem import Problem, Rejection
    from curate.stage import BuildRow, OpenSandbox, ProblemStage, Stage, compute_fingerprint
    from curate.stages import default_stages
    from curate.trust import TrustPolicy

__all__ = [
    "BuildOptions",
    "BuildRow",
    "BuildState",
    "CurateError",
    "Manifest",
    "OpenSandbox",
    "Problem",
    "ProblemStage",
    "Rejection",
    "Stage",
    "TrustPolicy",
    "build",
    "compute_fingerprint",
    "default_stages",
    "dry_run",
    "read_manifest",
    "source_names",
]

_HOMES = {
    "dataset.output_folder": ["read_manifest"],
    "errors": ["CurateError"],
    "manifest": ["Manifest"],
    "build_state": ["BuildState"],
    "options": ["BuildOptions"],
    "pipeline": ["build", "dry_run", "source_names"],
    "problem": ["Problem", "Rejection"],
    "stage": ["BuildRow", "OpenSandbox", "ProblemStage", "Stage", "compute_fingerprint"],
    "stages": ["default_stages"],
    "trust": ["TrustPolicy"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    # Loaded on first use: most commands need neither numpy nor pyarrow.
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
