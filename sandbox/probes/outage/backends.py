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


def _make_outage_probe(name: str, condition: str, *, right: bool) -> JudgeProbe:
    def make(problem: ProbeProblem) -> Submissions:
        program = problem.build_right_program() if right else problem.build_wrong_program()
        return Submissions(problem, (format_completion(program),))

    return JudgeProbe(
        f"{name}-{'right' if right else 'wrong'}", ALL_CONVENTIONS, make, is_correct=right, condition=condition
    )


CLASS = ProbeClass(
    Group.OUTAGE,
    "backends",
    why="The judge converts its own failure into a reward, so that rewards depend on chance.",
    remedy="Return None or raise if the judge fails, so that the completion is excluded from its group.",
    source="https://github.com/verl-project/verl/issues/3478",
    probes=tuple(
        _make_outage_probe(name, condition, right=right)
        for name, condition in _CONDITIONS.items()
        for right in (True, False)
    ),
)
