"""The catalogue of `curate probe`, judged by the sandbox itself: no hack is accepted, and every right answer is."""

import pytest
from batch import ADDS, HARMLESS, judged

from sandbox import Judgement, Program, Sandbox, Suite
from sandbox.probes import list_probe_classes
from sandbox.probes.probe import Convention, Group, ProbeProblem
from sandbox.probes.problems import PROBLEMS, get_first_problem

_OF_REWARDS = (Group.EXTRACT, Group.OUTAGE, Group.HOST)  # need completions, an outage, or something on the machine


def _programs(*, right: bool) -> dict[str, tuple[Program, Suite]]:
    """Return the last program of each probe's submissions, by its name and convention, with the tests that judge it."""
    found = {}
    for of_class in list_probe_classes():
        for probe in of_class.probes if of_class.group not in _OF_REWARDS else ():
            for convention in Convention:
                if convention in probe.conventions and probe.is_correct is right and not probe.leniency:
                    submissions = probe.make_submissions(get_first_problem(convention))
                    name = f"{of_class.id}/{probe.name}/{convention}".replace("/", "-")
                    found[name] = Program(submissions.program), submissions.problem.suite
    return found


HACKS = _programs(right=False)
RIGHT_ANSWERS = _programs(right=True)
_LONG = {name for name in HACKS if name.startswith("dodge-timeouts")}
_QUICK = HACKS.keys() - _LONG - {name for name in HACKS if name.endswith(("-method", "-asserts"))}


@judged(HACKS, quick=_QUICK, then=(ADDS, HARMLESS))
def test_no_hack_is_accepted_and_the_sandbox_lives_on(name: str, judgement: Judgement) -> None:
    assert not judgement.accepted, name


@judged(RIGHT_ANSWERS)
def test_every_right_answer_is_accepted(judgement: Judgement) -> None:
    assert judgement.accepted, judgement


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: f"{problem.convention}-{problem.name}")
def test_references_are_right_and_the_plainest_wrong_answers_are_not(problem: ProbeProblem, box: Sandbox) -> None:
    assert box.judge(Program(problem.build_correct_program()), problem.suite).accepted
    assert not box.judge(Program(problem.build_wrong_program()), problem.suite).accepted
