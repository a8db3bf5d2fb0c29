"""An adapter between the conformance driver's records and the sandbox:  check.py tests/conformance_adapter.py"""

import sys
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the driver may run in any environment

from sandbox import Sandbox, json_codec
from sandbox.judge_record import Record


@cache
def box() -> Sandbox:
    return Sandbox(workers=1)


def grade(record: dict[str, Any]) -> dict[str, Any]:
    fields = {name: value for name, value in record.items() if name in Record.__struct_fields__}
    submission = json_codec.decode(Record, {"checker": "tokens", **fields})
    judgement = box().judge(submission.program, submission.to_suite())
    return {"passed": judgement.accepted, "status": judgement.verdict.value}
