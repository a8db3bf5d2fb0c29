"""`curate decontaminate`: a copy of a dataset without the rows that hold something of an evaluation set.

Of a folder that `curate build-dataset` wrote comes what that build would have written with the same sets: rows that
went are in `rejected/`, manifest and card say so. Of any other file or folder the rows that stay are copied as they
are into `data/`, with the same `rejected/` and `contamination/` beside them, a manifest and a small card.
"""

import hashlib
import itertools
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from curate.dataset import card, workspace
from curate.dataset.derivation import Manifest, apart, own_manifest, rebuilt, rows_of
from curate.dataset.writer import REJECTED_COLUMNS, write_table
from curate.decontamination.decontaminate import HIT_COLUMNS, Findings, decontaminate
from curate.decontamination.evaluation_sets import Evaluation, evaluations_of
from curate.decontamination.rows import reported
from curate.decontamination.training_set import TrainingSet, training_set
from curate.difficulty import card_section, table
from curate.reading.tables import sha256
from curate.report.files import stored_pairs, write_report

Report = Callable[[str, int, int | None], None]


def clean(
    location: str,
    against: Sequence[str],
    out: Path,
    *,
    text: str | None = None,
    overwrite: bool = False,
    report: Report = lambda stage, done, total: None,
) -> Manifest:
    """Write the dataset without contaminated rows to the folder `out` and return its manifest.

    text: the column that holds the problems, where it has an unusual name. A folder that is finished already is
    recognised by its inputs, and left as it is. Raises CurateError.
    """
    before = own_manifest(Path(location).expanduser())
    found = training_set(f"{location}/data" if before else location, text)
    apart(out, Path(location).expanduser(), found.files.table.files)
    evaluations = evaluations_of(against)
    plan = _plan(before, found, evaluations, text)
    done = workspace.finished(out, plan, overwrite=overwrite)
    if done is not None:
        return done
    started = time.monotonic()
    findings = decontaminate(reported(found.rows, report), evaluations)
    with workspace.opened(out, plan, overwrite=overwrite) as work:
        final = work / "final"
        shutil.rmtree(final, ignore_errors=True)  # half of it, if this was killed before
        files = found.files.copy(findings.rejections, final / "data")
        folder = Path(location).expanduser() if before else None
        removed = [asdict(rejection) for rejection in findings.rejections.values()]
        rejected = [*rows_of(folder, "rejected"), *removed]
        rejected.sort(key=lambda row: tuple(row[name] for name in ("id", "stage", "reason", "detail")))
        write_table(iter(rejected), REJECTED_COLUMNS, final / "rejected")
        hits = [*rows_of(folder, "contamination"), *map(asdict, findings.hits)]
        write_table(iter(hits), HIT_COLUMNS, final / "contamination")
        gone = {row["id"] for row in removed}
        solved = [row for row in table.read(folder) if row["id"] not in gone] if folder else []
        if solved:
            write_table(iter(solved), table.COLUMNS, final / table.FOLDER)
        if before and "versions" in before:
            manifest = {
                **rebuilt(before, plan, findings.rejections.values(), files, rejected),
                "decontamination": _sets(before, findings),
            }
            card.write(manifest, final)
        else:
            manifest = _copied(before, plan, findings, files, final)
            (final / "README.md").write_text(_card(manifest, files, final), encoding="utf-8")
        if solved:
            card_section.announce(final, solved, manifest.get("solve_rate"))
        manifest["seconds"] = {
            **(before or {}).get("seconds", {}),
            "decontaminate": round(time.monotonic() - started, 3),
        }
        write_report(final, manifest, stored_pairs(Path(location).expanduser()))
        workspace.publish(work, out, manifest)
    return manifest


def _plan(before: Manifest | None, found: TrainingSet, evaluations: Iterable[Evaluation], text: str | None) -> Any:
    sets = [evaluation.plan for evaluation in evaluations]
    if before is not None:
        return {**before["plan"], "against": [*before["plan"].get("against", []), *sets]}
    files = [{"name": file.name, "sha256": sha256(file)} for file in found.files.table.files]
    return {
        "curate": metadata.version("curate-code"),
        "inputs": {"dataset": files},
        "configuration": {"text": text},
        "against": sets,
    }


def _copied(before: Manifest | None, plan: Any, findings: Findings, files: Sequence[Path], folder: Path) -> Manifest:
    """The manifest of a dataset that others made; `before` if rows were taken from it earlier."""
    rows = max(count["rows"] for count in findings.counts.values())
    kept = rows - len(findings.rejections)
    read = before["counts"]["dataset"]["read"] if before else rows
    rejected = {"decontaminate": {"contaminated": read - kept}} if read > kept else {}
    listed = "".join(f"{sha256(file)} {file.relative_to(folder).as_posix()}\n" for file in files)
    return {
        "plan": plan,
        "content_hash": hashlib.sha256(listed.encode("utf-8", "surrogateescape")).hexdigest(),
        "counts": {"dataset": {"read": read, "rejected": rejected, "kept": kept}},
        "decontamination": _sets(before or {}, findings),
    }


def _sets(before: Manifest, findings: Findings) -> dict[str, Any]:
    """What is said of each set, earlier ones included; a name that comes again gets a number."""
    found: dict[str, Any] = dict(before.get("decontamination", {}))
    for name, of_set in findings.counts.items():
        names = itertools.chain([name], (f"{name} ({number})" for number in itertools.count(2)))
        found[next(free for free in names if free not in found)] = of_set
    return found


def _card(manifest: Manifest, files: Sequence[Path], folder: Path) -> str:
    counts = manifest["counts"]["dataset"]
    lines = [
        "---",
        "configs:",
        "- config_name: default",
        f"  data_files: data/**/*{files[0].suffix}",
        "  default: true",
        *card.configs(folder),
        "---",
        "",
        "# A dataset without evaluation items",
        "",
        f"{counts['kept']} of {counts['read']} rows are left. Content hash `{manifest['content_hash']}`.",
        "",
        *card.contamination(manifest),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"
