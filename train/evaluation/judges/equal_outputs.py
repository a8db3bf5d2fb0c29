"""Whether two outputs are equal in Python's sense, decided outside the sandbox, without any tolerance."""

import json

from train.evaluation.judges import sandbox_runner
from train.evaluation.judges.call_run import CallOutput


def equal_outputs(given: CallOutput, wanted: CallOutput) -> bool:
    """Return whether two outputs are equal. What is not plain data, or not an encoding at all, equals nothing."""
    return _digest(given) == _digest(wanted) != sandbox_runner.UNEQUAL


def _digest(output: CallOutput) -> str:
    try:
        return (
            output.text
            if output.is_digest
            else sandbox_runner.digest(sandbox_runner.decode(json.loads(output.text), untrusted=True))
        )
    except Exception:  # a hostile program may claim anything
        return sandbox_runner.UNEQUAL
