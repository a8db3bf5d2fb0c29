"""Fixtures: shared workers of sandboxes, and a dataset with everything that a report shows, built once."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import showcase
from run_folder import make_once, run_folder
from shared_workers import _shared_workers, shared_workers  # noqa: F401
from source_rows import words, write_jsonl

from curate.decontamination.clean_copy import write_clean_copy
from curate.difficulty import table
from curate.manifest import compute_hash
from curate.pipeline import BuildOptions, build
from curate.report.report_files import refresh_report
from sandbox import Sandbox


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox(workers=2, seed=0) as box:
        yield box


@pytest.fixture(scope="session")
def showcase_build() -> Path:
    """Return the folder of a build of the showcase."""

    def make(folder: Path) -> None:
        with shared_workers():
            build(showcase.write(folder), folder / "out", BuildOptions(mutants=4, cross_checks=0))

    return make_once(run_folder() / "built", make) / "out"


@pytest.fixture(scope="session")
def reported(showcase_build: Path) -> Path:
    """Return the build, decontaminated against some evaluation items, with the solve rates of two models."""
    return make_once(run_folder() / "reported", lambda folder: _report(showcase_build, folder)) / "out"


def _report(showcase_build: Path, folder: Path) -> None:
    items = [{"task_id": "E/3", "prompt": words(3)}, {"task_id": "E/4", "prompt": showcase.near(4, 22)}]
    items.append({"task_id": "E/5", "prompt": showcase.near(5, 40)})
    out = folder / "out"
    write_clean_copy(str(showcase_build), [f"mine={write_jsonl(folder / 'eval.jsonl', items)}"], out)
    ids = [row["id"] for row in pq.read_table(out / "data", columns=["id"]).to_pylist()]
    settings = {"temperature": 0.6, "top_p": 0.95, "max_tokens": 4096, "seed": 0, "k": 8}
    verdicts = [{"verdict": word, "n_tokens": 9, "truncated": False} for word in ("accepted", "wrong_answer")]
    for model, step in (("b", 3), ("someone/some-model-of-7B", 1)):
        rows = []
        for n, id in enumerate(ids):
            right = (n * step) % 9
            records = verdicts[:1] * right + verdicts[1:] * (8 - right)
            rows.append(table.build_row(id, "", settings | {"model": model}, records, n_sampled=8))
        with table.lock_samples(out, model):
            table.replace_model_rows(out, model, rows)
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["solve_rate"] = {"band": "0.125:0.5", "models": ["b", "someone/some-model-of-7B"], "warning": None}
    (out / "manifest.json").write_text(json.dumps(manifest | {"manifest_hash": compute_hash(manifest)}))
    refresh_report(out)
