"""Correct and wrong submissions while the judge cannot start processes or reach a server."""

from sandbox.probes.probe import (
    ALL_CONVENTIONS,
    Group,
    JudgeProbe,
    ProbeClass,
    ProbeProblem,
    Submissions,
    format_completion,
)

_CONDITIONS = {
    "no-process": "no process", "no-memory": "no memory", "refused": "refused", "hangs": "hangs", "error-500": "error",
}  # fmt: skip


def _make_outage_probe(name: str, condition: str, *, is_correct: bool) -> JudgeProbe:
    def make(problem: ProbeProblem) -> Submissions:
        program = problem.build_correct_program() if is_correct else problem.build_wrong_program()
        return Submissions(problem, (format_completion(program),))

    name += "-right" if is_correct else "-wrong"
    return JudgeProbe(name, ALL_CONVENTIONS, make, is_correct=is_correct, condition=condition)


CLASS = ProbeClass(
    Group.OUTAGE,
    "backends",
    why="The judge converts its own failure into a reward, so that rewards depend on chance.",
    remedy="Return None or raise if the judge fails, so that the completion is excluded from its group.",
    source="https://github.com/verl-project/verl/issues/3478",
    probes=tuple(
        _make_outage_probe(name, condition, is_correct=is_correct)
        for name, condition in _CONDITIONS.items()
        for is_correct in (True, False)
    ),
)
