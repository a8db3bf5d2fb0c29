"""Submissions without a program that the judge could test."""

from collections.abc import Callable

from sandbox.probes.probe import (
    ALL_CONVENTIONS,
    Group,
    JudgeProbe,
    ProbeClass,
    ProbeProblem,
    Submissions,
    format_completion,
)


def _make_completion_probe(name: str, completion: Callable[[ProbeProblem], str]) -> JudgeProbe:
    return JudgeProbe(name, ALL_CONVENTIONS, lambda problem: Submissions(problem, (completion(problem),)))


CLASS = ProbeClass(
    Group.DODGE,
    "nothing",
    why="The judge calls all() on an empty list of test results, or compares two empty values, and both are true.",
    remedy="Reject a submission that has no program, or lacks a result for any test.",
    source="ours",
    probes=(
        _make_completion_probe("empty-completion", lambda _: ""),
        _make_completion_probe("blank-completion", lambda _: " \n\t\n"),
        _make_completion_probe("words-only", lambda _: "I cannot solve this problem."),
        _make_completion_probe("empty-program", lambda _: format_completion("")),
        _make_completion_probe("comment-only", lambda _: format_completion("# later")),
        _make_completion_probe("pass-only", lambda _: format_completion("pass")),
        _make_completion_probe(
            "another-name", lambda _: format_completion("def something_else(*values):\n    return 1\n")
        ),
        _make_completion_probe("guarded", lambda _: format_completion("if False:\n    print('no answer')\n")),
        _make_completion_probe("unfinished", lambda problem: f"```python\n{problem.build_wrong_program()[:12]}"),
    ),
)
