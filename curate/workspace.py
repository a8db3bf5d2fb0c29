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
PARTS = ("data", "rejected", "README.md", "report.json", "report.html")
WORK = ".work"


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
    except FileNotFoundError:
        if (out / WORK).is_dir():
            return None
        raise CurateError(f"{out} holds files that are not a dataset of ours. Choose another --out.") from None
    except (ValueError, KeyError, TypeError):
        raise CurateError(f"{out / MANIFEST} is not a manifest of ours. Choose another --out.") from None
    if found == plan and not overwrite:
        shutil.rmtree(out / WORK, ignore_errors=True)  # left over if the build was killed in its last moment
        return manifest
    if not overwrite:
        raise CurateError(
            f"{out} holds a dataset made from another plan ({_difference(found, plan)}). "
            "Choose another --out, or add --overwrite to replace it."
        )
    return None


@contextmanager
def opened(out: Path, plan: dict[str, Any], *, overwrite: bool) -> Iterator[Path]:
    """The work folder, held by this process alone; what an earlier process left of the same plan is in it.

    Raises CurateError if another process holds it, or if it was begun by another plan.
    """
    work = out / WORK
    work.mkdir(parents=True, exist_ok=True)
    with (work / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CurateError(f"another build is writing to {out}. Wait for it, or choose another --out.") from None
        plan_file = work / "plan.json"
        begun = json.loads(plan_file.read_text()) if plan_file.exists() else None
        if begun is not None and begun != plan:
            if not overwrite:
                raise CurateError(
                    f"{out} holds an unfinished build of another plan ({_difference(begun, plan)}). "
                    "Choose another --out, or add --overwrite to drop it."
                )
            for path in work.glob("*.jsonl"):
                path.unlink()
        (out / MANIFEST).unlink(missing_ok=True)  # what is about to be replaced must not look finished
        write_whole(plan_file, json.dumps(plan))
        yield work


def publish(work: Path, out: Path, manifest: dict[str, Any]) -> None:
    """Move the finished parts into place, then write the manifest, then drop the work folder."""
    for name in PARTS:
        old, new = out / name, work / "final" / name
        if old.is_dir():
            shutil.rmtree(old)
        new.rename(old)
    write_whole(out / MANIFEST, json.dumps(manifest, indent=2) + "\n")
    shutil.rmtree(work)


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader finds all of it or none."""
    aside = path.with_name(path.name + ".new")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)


def _difference(found: dict[str, Any], wanted: dict[str, Any]) -> str:
    differing = [
        f"{name} was {found['configuration'].get(name)}, now {value}"
        for name, value in wanted["configuration"].items()
        if found.get("configuration", {}).get(name) != value
    ]
    return "; ".join(differing) or "other inputs or another version"
