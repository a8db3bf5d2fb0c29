"""The output folder and the work folder inside it: locking, recognizing finished work, and resuming.

A finished folder has a manifest. An unfinished one has a folder `.work` with the plan of the build and its shards.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from curate import manifest as manifests
from curate.dataset.digests import DIGESTS
from curate.errors import CurateError, OutputInUseError, PlanMismatchError
from curate.json_records import to_json
from curate.manifest import MANIFEST, InputFile, Manifest, Plan
from curate.reading.tables import hash_path
from curate.reading.values import shorten
from curate.work import FILE, SHARDS, has_records
from sandbox.concurrency.file_lock import FileLock

_WRITTEN_ONCE = ("data", "rejected", "evidence", "contamination", DIGESTS)  # immutable in a finished dataset
DATASET_ENTRIES = (*_WRITTEN_ONCE, "difficulty", "README.md", "report.json", "report.html")
WORK, PLAN = ".work", "plan.json"


def find_finished_manifest(out: Path, plan: Plan, *, overwrite: bool) -> Manifest | None:
    """Return the manifest of a folder finished with this plan; None if the dataset must be built.

    Raises CurateError if the folder contains anything else.
    """
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return None
    if not out.is_dir():
        raise CurateError(f"{out} is a file. Choose another --out.")
    try:
        content = json.loads((out / MANIFEST).read_text())
        # Compare as JSON: a plan of another version may have other fields.
        before, wanted = content["plan"], to_json(plan)
        if not isinstance(before["configuration"], dict):
            raise TypeError
        manifest = manifests.from_json(content) if before == wanted and not overwrite else None
    except FileNotFoundError:
        if (out / WORK).is_dir():
            return None
        raise CurateError(f"{out} has files but is not a curate dataset. Choose another --out.") from None
    except (ValueError, KeyError, TypeError):
        raise CurateError(f"{out / MANIFEST} is not a curate manifest. Choose another --out.") from None
    if manifest is not None:
        if _read_work_plan(out / WORK) in (None, wanted):  # left by a build killed after its commit
            shutil.rmtree(out / WORK, ignore_errors=True)
        return manifest
    if not overwrite:
        raise PlanMismatchError(
            f"{out} holds a dataset made from another plan ({_describe_difference(before, wanted)}). "
            "Choose another --out, or add --overwrite to replace it."
        )
    return None


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a finished dataset. Raises CurateError for any other folder."""
    try:
        content = json.loads((folder / MANIFEST).read_text())
        is_dataset = {"plan", "counts", "content_hash"} <= content.keys() and (folder / "data").is_dir()
    except FileNotFoundError:
        if (folder / WORK).is_dir():
            raise CurateError(
                f"{folder} is not finished. Run the same command again; it continues the build."
            ) from None
        is_dataset = False
    except (OSError, ValueError, AttributeError):
        is_dataset = False
    if not is_dataset:
        raise CurateError(f"{folder} is not a curate dataset. Give the folder that curate build-dataset wrote.")
    try:
        return manifests.from_json(content)
    except ValueError as error:
        raise CurateError(
            f"{folder / MANIFEST}: not a manifest of this version of curate ({shorten(error)}). Build it again."
        ) from error


def lock_output(out: Path, lock: Path, *, temporary: bool = False) -> FileLock:
    """Lock `out` against other commands, and create the folder of the lock file.

    temporary  whether releasing the lock removes its file

    Raises CurateError if the file cannot be created, or if another command has locked it.
    """
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(lock, OutputInUseError(out), temporary=temporary)
    except OSError as error:
        raise CurateError(f"{out} cannot be written to ({error.strerror}). Choose another --out.") from error


@contextmanager
def open_work_folder(out: Path, plan: Plan, *, overwrite: bool) -> Iterator[Path]:
    """Lock the work folder and yield it, with earlier work on the same plan.

    Raises CurateError if the folder cannot be created, if another process has locked it or finished the dataset
    meanwhile, and for work of an older version or of another plan.
    """
    work, wanted = out / WORK, to_json(plan)
    with lock_output(out, work / "lock"):
        if (out / MANIFEST).exists() and not overwrite:
            raise CurateError(f"another command has just finished {out}. Run the same command again.")
        work_plan = _read_work_plan(work)
        if work_plan not in (None, wanted):
            if not overwrite and any(map(has_records, work.glob(f"{SHARDS}/*/{FILE}"))):
                raise PlanMismatchError(
                    f"{out} holds an unfinished build of another plan ({_describe_difference(work_plan, wanted)}). "
                    "Choose another --out, or add --overwrite to discard it."
                )
            shutil.rmtree(work / SHARDS, ignore_errors=True)
        for path in work.glob("*.jsonl"):
            if not overwrite:
                raise CurateError(
                    f"{out} holds an unfinished build of an older version. Add --overwrite to start again, or choose "
                    "another --out."
                )
            path.unlink()
        write_atomic(work / PLAN, json.dumps(wanted))
        yield work


def commit_output(work: Path, out: Path, manifest: Manifest) -> Manifest:
    """Move the finished tables into place, write the manifest, and delete the work folder.

    Returns the manifest with the list of files and its own hash.
    """
    (out / MANIFEST).unlink(missing_ok=True)  # so readers reject a partly replaced dataset
    for name in DATASET_ENTRIES:
        old, new = out / name, work / "final" / name
        if (old / WORK).is_dir():  # keep a model's expensive samples; their file names are cache keys
            new.mkdir(exist_ok=True)
            (old / WORK).rename(new / WORK)
        if old.is_dir():
            shutil.rmtree(old)
        else:
            old.unlink(missing_ok=True)
        if new.exists():
            new.rename(old)
    manifest = replace(manifest, files=hash_immutable_files(out))
    manifest = replace(manifest, manifest_hash=manifests.compute_hash(manifests.to_json(manifest)))
    write_atomic(out / MANIFEST, json.dumps(manifests.to_json(manifest), indent=2) + "\n")
    shutil.rmtree(work, ignore_errors=True)  # another process may remove it concurrently
    return manifest


def hash_immutable_files(folder: Path) -> tuple[InputFile, ...]:
    """Return the immutable files with their sizes and hashes."""
    names = list_immutable_files(folder)
    return tuple(InputFile(name, (folder / name).stat().st_size, hash_path(folder / name)) for name in names)


def list_immutable_files(folder: Path) -> list[str]:
    """Return the names of files that no command changes later, and of symlinks to folders or missing files there."""
    parts = [folder / name for name in _WRITTEN_ONCE]
    paths = [path for part in parts for path in (sorted(part.rglob("*")) if part.is_dir() else [part])]
    listed = (path for path in paths if path.is_symlink() or (path.exists() and not path.is_dir()))
    return [path.relative_to(folder).as_posix() for path in listed]


def list_untracked_names(folder: Path) -> list[str]:
    """Return the names of entries in a dataset's folder that do not belong to it. No command reads them."""
    return sorted({path.name for path in folder.glob("[!.]*")} - {*DATASET_ENTRIES, MANIFEST})


def mark_unfinished(out: Path) -> None:
    """Mark a dataset as unfinished before it is replaced, so readers reject the old one."""
    (out / WORK).mkdir(parents=True, exist_ok=True)  # marks a folder without a manifest as curate's
    (out / MANIFEST).unlink(missing_ok=True)


def write_atomic(path: Path, text: str) -> None:
    """Write a file atomically."""
    new_path = path.with_name(path.name + ".new")
    new_path.write_text(text, encoding="utf-8")
    new_path.replace(path)


def _read_work_plan(work: Path) -> dict[str, Any] | None:
    """Return the plan of a work folder as JSON; None without a plan, {} if it cannot be read."""
    try:
        plan = json.loads((work / PLAN).read_text())
    except FileNotFoundError:
        return None
    except ValueError:
        return {}
    return plan if isinstance(plan, dict) else {}


def _describe_difference(plan: dict[str, Any], wanted: dict[str, Any]) -> str:
    before = plan.get("configuration", {})
    differing = [
        f"{name} was {before[name]}, now {value}"
        for name, value in wanted["configuration"].items()
        if name in before and before[name] != value
    ]
    return "; ".join(differing) or "inputs, evaluation sets or version differ"
