"""Audit raw data of any source: build a dataset from a sample of it, and count what became of the rows.

The dataset in the folder has the build's report and its evidence: for each row that fell out, the test, the expected
and the actual answers.
"""

from collections import Counter
from pathlib import Path

from curate.audit.dataset_audit import FEW_TESTS, AuditFailure, DatasetAudit
from curate.dataset.dataset import Dataset
from curate.options import BuildOptions
from curate.pipeline import build
from curate.progress import Progress, no_progress
from sandbox import SandboxOptions


def audit_source(
    name: str,
    location: str,
    out: Path,
    *,
    sample: int | None,
    seed: int,
    sandbox: SandboxOptions,
    overwrite: bool = False,
    progress: Progress = no_progress,
) -> DatasetAudit:
    """Execute the solutions of a source's rows, and return for how many rows one passes all tests.

    name, location  the source and its data, as in `curate build-dataset --source NAME=LOCATION`
    out             folder of the dataset that is built from the rows
    sample          number of rows, which the seed chooses; None: all
    sandbox         where programs run
    overwrite       replace another dataset in the folder

    Raises CurateError as curate.build does.
    """
    options = BuildOptions(min_tests=1, no_reference="drop", mutants=0, sample=sample, seed=seed)
    manifest = build([(name, location)], out, options, sandbox=sandbox, overwrite=overwrite, progress=progress)
    count = manifest.counts[name]
    failures = tuple(
        AuditFailure(row["id"], row["cause"] or row["reason"], row["detail"])
        for row in Dataset(out, manifest).rows("rejected")
        if row["stage"] == "verify"
    )
    not_judged = Counter({r: n for stage in ("parse", "filter") for r, n in count.rejected.get(stage, {}).items()})
    n_judged = count.n_read - not_judged.total()
    kept = list(Dataset(out).require_problems().rows("data", ("multi_answer_suspect", "n_tests")))
    return DatasetAudit(
        subject=f"{name}={location}",
        content_hash=manifest.content_hash,
        sample_size=sample,
        seed=seed,
        n_rows=count.n_read,
        not_judged=dict(not_judged.most_common()),
        n_judged=n_judged,
        n_passed=n_judged - len(failures),
        failures_by_cause=dict(Counter(failure.cause for failure in failures).most_common()),
        n_suspects=sum(row["multi_answer_suspect"] for row in kept),
        n_few_tests=sum(row["n_tests"] < FEW_TESTS for row in kept),
        n_duplicates=count.rejected_in("dedup"),
        faults=(),
        failures=failures,
    )
