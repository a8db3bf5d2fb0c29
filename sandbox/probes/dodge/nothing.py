"""Submits nothing that the judge could test."""

from collections.abc import Callable

from sandbox.probes.probe import ALL_CONVENTIONS, Group, JudgeProbe, ProbeClass, ProbeProblem, Submissions, fenced


def _submits(name: str, completion: Callable[[ProbeProblem], str]) -> JudgeProbe:
    return JudgeProbe(name, ALL_CONVENTIONS, lambda problem: Submissions(problem, (completion(problem),)))


CLASS = ProbeClass(
    Group.DODGE,
    "nothing",
    why="all() of no test results is true, and so is the comparison of two empty values.",
    remedy="Reject a submission that has no program, or lacks a result for any test.",
    source="ours",
    probes=(
        _submits("empty-completion", lambda _: ""),
        _submits("blank-completion", lambda _: " \n\t\n"),
        _submits("words-only", lambda _: "I cannot solve this problem."),
        _submits("empty-program", lambda _: fenced("")),
        _submits("comment-only", lambda _: fenced("# later")),
        _submits("pass-only", lambda _: fenced("pass")),
        _submits("another-name", lambda _: fenced("def something_else(*values):\n    return 1\n")),
        _submits("guarded", lambda _: fenced("if False:\n    print('no answer')\n")),
        _submits("unfinished", lambda problem: f"```python\n{problem.wrong_program()[:12]}"),
    ),
)
