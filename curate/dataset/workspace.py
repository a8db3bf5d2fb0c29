"""The output folder and the work folder inside it: who may write, what is finished, what can be continued.

A folder is finished when it holds a manifest. Until then its `.work` folder holds the plan it is being built
by, and the journals. A plan is everything that decides the content; workers, paths and times are not in it.
"""

import fcntl
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from curate.errors import CurateError

MANIFEST = "manifest.json"
PARTS = ("data", "rejected", "contamination", "difficulty", "README.md", "report.json", "report.html")
WORK, PLAN = ".work", "plan.json"


def finished(out: Path, plan: dict[str, Any], *, overwrite: bool) -> dict[str, Any] | None:
    """The manifest of the folder if it was built by this very plan; None if there is something to do.

    Raises CurateError if the folder holds something else that must not be lost.
    """
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return None
    if not out.is_dir():
        raise CurateError(f"{out} is a file. Choose another --out.")
    try:
        manifest: dict[str, Any] = json.loads((out / MANIFEST).read_text())
        found = manifest["plan"]
        if not isinstance(found["configuration"], dict):
            raise TypeError
    except FileNotFoundError:
        if (out / WORK).is_dir():
            return None
        raise CurateError(f"{out} holds files that are not a dataset of ours. Choose another --out.") from None
    except (ValueError, KeyError, TypeError):
        raise CurateError(f"{out / MANIFEST} is not a manifest of ours. Choose another --out.") from None
    if found == plan and not overwrite:
        if _begun(out / WORK) in (None, plan):  # left over from a build killed in its last moment
            shutil.rmtree(out / WORK, ignore_errors=True)
        return manifest
    if not overwrite:
        raise CurateError(
            f"{out} holds a dataset made from another plan ({_difference(found, plan)}). "
            "Choose another --out, or add --overwrite to replace it."
        )
    return None


def manifest_of(folder: Path) -> dict[str, Any]:
    """The manifest of a finished dataset. Raises CurateError if the folder is none."""
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
        ours = {"plan", "counts", "content_hash"} <= manifest.keys() and (folder / "data").is_dir()
    except FileNotFoundError:
        if (folder / WORK).is_dir():
            raise CurateError(f"{folder} is not finished. Build it to its end: the same command continues.") from None
        ours = False
    except (OSError, ValueError, AttributeError):
        ours = False
    if not ours:
        raise CurateError(f"{folder} is not a dataset of ours. Give the folder that curate build-dataset wrote.")
    return manifest


@contextmanager
def opened(out: Path, plan: dict[str, Any], *, overwrite: bool) -> Iterator[Path]:
    """The work folder, held by this process alone; what an earlier process left of the same plan is in it.

    Raises CurateError if it cannot be made, if another process holds it, or if another plan has executed something
    in it, which the journals tell, `*.jsonl`.
    """
    work = out / WORK
    try:
        work.mkdir(parents=True, exist_ok=True)
        held = (work / "lock").open("w")
    except OSError as error:
        raise CurateError(f"{out} cannot be written to ({error.strerror}). Choose another --out.") from error
    with held as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CurateError(f"another build is writing to {out}. Wait for it, or choose another --out.") from None
        begun = _begun(work)
        if begun not in (None, plan):
            journals = list(work.glob("*.jsonl"))
            if not overwrite and any(path.stat().st_size for path in journals):
                raise CurateError(
                    f"{out} holds an unfinished build of another plan ({_difference(begun, plan)}). "
                    "Choose another --out, or add --overwrite to drop it."
                )
            for path in journals:
                path.unlink()
        write_whole(work / PLAN, json.dumps(plan))
        yield work


def publish(work: Path, out: Path, manifest: dict[str, Any]) -> None:
    """Move the finished parts into place, then write the manifest, then drop the work folder."""
    (out / MANIFEST).unlink(missing_ok=True)  # what is being replaced must not look finished
    for name in PARTS:
        old, new = out / name, work / "final" / name
        if (old / WORK).is_dir():  # a model's samples: dear, and named after all they depend on
            new.mkdir(exist_ok=True)
            (old / WORK).rename(new / WORK)
        if old.is_dir():
            shutil.rmtree(old)
        else:
            old.unlink(missing_ok=True)
        if new.exists():
            new.rename(old)
    write_whole(out / MANIFEST, json.dumps(manifest, indent=2) + "\n")
    shutil.rmtree(work)


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader finds all of it or none."""
    aside = path.with_name(path.name + ".new")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)


def _begun(work: Path) -> dict[str, Any] | None:
    """The plan that a work folder was begun by; None if there is none, an empty one if it cannot be read."""
    try:
        plan = json.loads((work / PLAN).read_text())
    except FileNotFoundError:
        return None
    except ValueError:
        return {}
    return plan if isinstance(plan, dict) else {}


def _difference(found: dict[str, Any], wanted: dict[str, Any]) -> str:
    before = found.get("configuration", {})
    differing = [
        f"{name} was {before[name]}, now {value}"
        for name, value in wanted["configuration"].items()
        if name in before and before[name] != value
    ]
    return "; ".join(differing) or "other inputs, evaluation sets or another version"
