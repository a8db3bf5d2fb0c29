"""The report of the tests' process to the judge: the completed stages and the verdict."""

import json
import os
from typing import NoReturn

_MAX_DETAIL_CHARS = 1000


class AssertionReportWriter:
    """Writer of the report, to a file that the submission cannot open.

    Each record is one line of ASCII JSON. JSON escapes newlines, so text of the submission cannot end a record early.
    AssertionReport in judging/assertion_runner.py is the parser.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._stages: set[str] = set()

    def mark_stage(self, stage: str) -> None:
        if stage not in self._stages:
            self._stages.add(stage)
            self._write({"stage": stage})

    def write_verdict(self, verdict: str, detail: str = "") -> NoReturn:
        """Record the verdict and exit immediately, without cleanup."""
        self._write(
            {"verdict": verdict, "detail": detail[:_MAX_DETAIL_CHARS].encode("utf-8", "backslashreplace").decode()}
        )
        os._exit(0)

    def _write(self, record: dict[str, str]) -> None:
        os.write(self._descriptor, json.dumps(record).encode("ascii") + b"\n")
