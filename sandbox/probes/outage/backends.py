"""Submits the plainest right and wrong answers while the judge can start no process or reach no server."""

from sandbox.probes.probe import EVERY, Group, JudgeProbe, ProbeClass, ProbeProblem, Trial, fenced

_CONDITIONS = {
    "no-process": "no process", "no-memory": "no memory", "refused": "refused", "hangs": "hangs", "error-500": "error",
}  # fmt: skip


def _answers(name: str, condition: str, *, right: bool) -> JudgeProbe:
    def make(problem: ProbeProblem) -> Trial:
        program = problem.right_program() if right else problem.wrong_program()
        return Trial(problem, (fenced(program),))

    return JudgeProbe(f"{name}-{'right' if right else 'wrong'}", EVERY, make, right=right, condition=condition)


CLASS = ProbeClass(
    Group.OUTAGE,
    "backends",
    why="The judge turns a failure of its own into a reward, so that answers gain or lose by chance.",
    remedy="Return None, or raise, if nothing is known, so that the completion is left out of its group.",
    source="https://github.com/verl-project/verl/issues/3478",
    probes=tuple(
        _answers(name, condition, right=right) for name, condition in _CONDITIONS.items() for right in (True, False)
    ),
)
