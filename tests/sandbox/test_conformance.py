"""The self-check of `curate doctor` passes on this machine, and it reports failures."""

from batch import judged

from sandbox import ExecutionLost, Judgement, Program, Sandbox, Suite, Verdict, backends
from sandbox.conformance import CHECKS, KNOWN_FAILURES, run
from sandbox.judge import CaseJudgement

BY_NAME = {check.name: check for check in CHECKS}


@judged({name: (check.program, check.suite) for name, check in BY_NAME.items()})
def test_each_conformance_check_passes(name: str, judgement: Judgement) -> None:
    assert judgement.verdict in BY_NAME[name].expected, judgement


def test_names_are_unique() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)


class EverythingGoes(Sandbox):
    def __init__(self) -> None:
        pass

    def judge(self, program: Program, suite: Suite, *, run_all: bool = False) -> Judgement:
        return Judgement(Verdict.ACCEPTED, (CaseJudgement(Verdict.ACCEPTED, 0, 0, 0),), 1)


class Broken(EverythingGoes):
    def judge(self, program: Program, suite: Suite, *, run_all: bool = False) -> Judgement:
        raise ExecutionLost("worker died")


def test_a_sandbox_that_accepts_everything_passes_only_the_checks_of_right_programs() -> None:
    failed = [finding.check.name for finding in run(EverythingGoes()) if not finding.passed]
    assert len(failed) >= 15
    assert "network" in failed


def test_a_sandbox_that_breaks_passes_no_check() -> None:
    assert {(finding.passed, finding.actual) for finding in run(Broken())} == {(False, "ExecutionLost: worker died")}


def test_known_failures_name_existing_checks() -> None:
    named = {name for failures in KNOWN_FAILURES.values() for name in failures}
    assert named <= {check.name for check in CHECKS}
    assert KNOWN_FAILURES.keys() <= set(backends.list_names())
