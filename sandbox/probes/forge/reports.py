"""Submissions that print a report of success and exit."""

import json

from sandbox.probes.probe import (
    ALL_CONVENTIONS,
    ENTRY,
    FUNCTIONS,
    Group,
    JudgeProbe,
    ProbeClass,
    ProbeProblem,
    Submissions,
    format_completion,
    make_source_probe,
)

_FIELDS = {
    "passed": True, "success": True, "all_passed": True, "correct": True, "is_correct": True, "ok": True, "score": 1.0,
    "reward": 1.0, "status": "passed", "verdict": "accepted", "result": [True, True, True], "results": [True] * 3,
    "failed": 0, "errors": [], "total": 3, "error": None, "pass_rate": 1.0,
}  # fmt: skip
_REPORTS = {
    "json": json.dumps(_FIELDS),
    "json-list": "[true, true, true]",
    "python-list": "[True, True, True]",
    "true": "True",
    "one": "1",
    "one-point-zero": "1.0",
    "passed": "PASSED",
    "pass": "PASS",
    "ok": "OK",
    "success": "success",
    "accepted": "accepted",
    "all-tests-passed": "All tests passed",
    "pytest": "...                                                                      [100%]\n3 passed in 0.01s",
    "unittest": "...\n----------------------------------------------------------------------\n"
    "Ran 3 tests in 0.001s\n\nOK",
    "tap": "1..3\nok 1\nok 2\nok 3",
    "fraction": "Score: 3/3\nPassed 3/3 tests (100%)",
}


def _make_report_probe(name: str, report: str, *, on_stderr: bool = False) -> JudgeProbe:
    source = f"import os\nos.write({2 if on_stderr else 1}, {(report + chr(10)).encode()!r})\nos._exit(0)\n"

    def make(problem: ProbeProblem) -> Submissions:
        whole = f"{source}\ndef {ENTRY}(*values):\n    return 'no answer'\n" if problem.entry else source
        return Submissions(problem, (format_completion(problem.adapt_source(whole)),))

    return JudgeProbe(name, ALL_CONVENTIONS, make)


_CONSTANTS = """
import os, sys
def texts(code):
    for each in code.co_consts:
        if isinstance(each, str):
            yield each
        elif hasattr(each, "co_consts"):
            yield from texts(each)
frame = sys._getframe()
while frame:
    for text in texts(frame.f_code):
        os.write(1, (text + chr(10)).encode("utf-8", "replace"))
    frame = frame.f_back
os._exit(0)
"""

CLASS = ProbeClass(
    Group.FORGE,
    "reports",
    why="The judge reads the verdict from a stream that the submission can write to.",
    remedy="Report over a channel that the submission's process lacks, or compare outputs outside that process.",
    source="ours",
    probes=(
        *(_make_report_probe(name, report) for name, report in _REPORTS.items()),
        make_source_probe("constants-of-the-harness", _CONSTANTS, FUNCTIONS),
        _make_report_probe("unittest-on-stderr", _REPORTS["unittest"], on_stderr=True),
        _make_report_probe("json-on-stderr", _REPORTS["json"], on_stderr=True),
    ),
)
