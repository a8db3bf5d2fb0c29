"""Like conformance_adapter.py, but in containers of a Docker engine:  check.py tests/docker_conformance_adapter.py"""

import sys
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the driver may run in any environment

from sandbox import Program, Sandbox
from sandbox.judge_record import parse_suite


@cache
def box() -> Sandbox:
    return Sandbox(workers=1, backend="docker")


def grade(record: dict[str, Any]) -> dict[str, Any]:
    judgement = box().judge(Program(record["code"]), parse_suite(record, checker="tokens"))
    return {"passed": judgement.accepted, "status": judgement.verdict.value}
