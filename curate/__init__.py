"""Builder of verified, deduplicated and documented datasets from raw programming problems.

    from pathlib import Path
    from curate import BuildOptions, build

    manifest = build([("taco", "data/taco")], Path("out"), BuildOptions())

Begin with pipeline (the whole build), stage (the interface of its stages) and problem (one row). The folders:

    text/            words, n-grams, and text for a terminal
    reading/         files, tables and values of raw data; dialects of tests; solutions; prompt templates
    sources/         parsers of raw rows into problems, one file per source
    strength/        test strength: the share of wrong programs that the tests reject
    dataset/         a dataset on disk: its rows, card and work folder; inspecting, comparing and pushing it
    dedup/           near-duplicates by MinHash and exact Jaccard similarity
    report/          report.json and report.html
    difficulty/      solve rates of models, and bands of solve rates
    decontamination/ rows that contain items of evaluation sets
    operations/      filter, split and merge
    stages/          the stages of a build, one file each
    exports/         export formats, one file per trainer or tool
    probe/           tests of other judges of code, for `curate probe`
    recipes/         recipes as files, and runs of a whole recipe
    commands/        the commands, one file each
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
