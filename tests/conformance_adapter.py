"""An adapter between the conformance driver's records and the sandbox:  check.py tests/conformance_adapter.py"""

import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the driver may run in any environment

from sandbox import Sandbox, json_codec
from sandbox.judge_record import Record


def grader(**options: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a function that judges a record of the driver. options: those of Sandbox"""
    box = cache(partial(Sandbox, workers=1, **options))

    def grade(record: dict[str, Any]) -> dict[str, Any]:
        fields = {name: value for name, value in record.items() if name in Record.__struct_fields__}
        submission = json_codec.decode(Record, {"checker": "tokens", **fields})
        judgement = box().judge(submission.program, submission.to_suite())
        return {"passed": judgement.accepted, "status": judgement.verdict.value}

    return grade


grade = grader()
