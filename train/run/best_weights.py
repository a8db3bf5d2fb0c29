"""The weights of the step that solved most of one suite, which are kept whatever becomes of the checkpoints.

RUN/best/            the model, as transformers and vLLM read it
RUN/best/best.json   {"suite": "humaneval+", "step": 120, "pass@1": 0.61, "low": 0.55, "high": 0.67, ...}

The folder is always whole. It holds the best of all that was evaluated in the folder of the run: if a run is continued
before that step, it stays until a better one is found.
"""

import json
import shutil
from math import isnan
from pathlib import Path
from typing import Any

BEST, RECORD_FILE = "best", "best.json"
_NEW, _OLD = ".best.new", ".best.old"
_COMPARABLE_KEYS = ("suite", "exercises_sha256", "temperature", "top_p")  # equal in all records that are compared


def best_record(suite: str, step: int, result: Path) -> dict[str, Any]:
    """Return the note about the weights after a step, from the result of their evaluation."""
    content = json.loads(result.read_text(encoding="utf-8"))
    numbers, sampling = content["numbers"], content["sampling"]
    return {
        "suite": suite,
        "step": step,
        "pass@1": numbers["pass_at_1"],
        "low": numbers["low"],
        "high": numbers["high"],
        **{name: sampling[name] for name in ("k", "temperature", "top_p", "max_tokens")},
        "exercises_sha256": content["suite"]["exercises_sha256"],
    }


def read_best_record(run: Path) -> dict[str, Any] | None:
    """Return the note about the best weights so far, or None if there are none, or the note is damaged."""
    try:
        note = json.loads((run / BEST / RECORD_FILE).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # a machine that lost its power may leave an empty file
        return None
    return note if isinstance(note, dict) and "pass@1" in note else None


def is_better(record: dict[str, Any], previous: dict[str, Any] | None) -> bool:
    """Return whether weights take the place of those before: equal ones do not.

    A note from before about another suite, or other problems, cannot be compared and gives way.
    """
    if record["pass@1"] is None or isnan(record["pass@1"]):
        return False
    if previous is None or any(record[name] != previous.get(name) for name in _COMPARABLE_KEYS):
        return True
    return bool(record["pass@1"] > previous["pass@1"])


def replace_best(run: Path, model: Path, record: dict[str, Any]) -> None:
    """Make a model the best one. Its folder is moved. Raises OSError if it cannot be."""
    (model / RECORD_FILE).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    best, new, old = run / BEST, run / _NEW, run / _OLD
    shutil.rmtree(new, ignore_errors=True)
    model.rename(new)
    if best.exists():
        shutil.rmtree(old, ignore_errors=True)
        best.rename(old)
    new.rename(best)
    shutil.rmtree(old, ignore_errors=True)


def finish_interrupted_replace(run: Path) -> None:
    """Complete what a run that was killed within `replace_best` had begun."""
    best, new, old = run / BEST, run / _NEW, run / _OLD
    if new.exists():
        shutil.rmtree(best, ignore_errors=True)
        new.rename(best)
    elif old.exists() and not best.exists():
        old.rename(best)
    shutil.rmtree(old, ignore_errors=True)
