"""Shares with an earlier right answer what a judge may remember that answer by."""

from collections.abc import Callable

from sandbox.probes.probe import EVERY, Group, JudgeProbe, ProbeClass, ProbeProblem, Trial, fenced

_NOTES = "# This program was written with care, line by line.\n" * 200


def _pairs(name: str, write: Callable[[str, int], str]) -> JudgeProbe:
    """Return a probe with a right answer and a wrong one.

    write   returns a program with notes; the number is the characters that it has fewer than the longer of both
    """

    def make(problem: ProbeProblem) -> Trial:
        right, wrong = problem.right_program(), problem.wrong_program()
        longest = max(len(right), len(wrong))
        answers = [fenced(write(program, longest - len(program))) for program in (right, wrong)]
        return Trial(problem, (answers[1],), before=(answers[0],))

    return JudgeProbe(name, EVERY, make)


CLASS = ProbeClass(
    Group.FORGE,
    "memory",
    why="The judge remembers verdicts by a part of the answer, and a wrong answer shares that part with a right one.",
    remedy="Remember verdicts by a cryptographic hash of the whole program and of all tests, or not at all.",
    source="ours",
    probes=(
        _pairs("same-beginning", lambda program, _: _NOTES + program),
        _pairs("same-end", lambda program, _: f"{program}\n{_NOTES}"),
        _pairs("same-length", lambda program, missing: f"{program}#{'.' * missing}\n"),
    ),
)
