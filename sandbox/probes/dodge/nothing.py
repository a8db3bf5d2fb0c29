"""Gives the judge nothing to test."""

from collections.abc import Callable

from sandbox.probes.probe import EVERY, Group, JudgeProbe, ProbeClass, ProbeProblem, Trial, fenced


def _says(name: str, completion: Callable[[ProbeProblem], str]) -> JudgeProbe:
    return JudgeProbe(name, EVERY, lambda problem: Trial(problem, (completion(problem),)))


CLASS = ProbeClass(
    Group.DODGE,
    "nothing",
    why="A conjunction over no tests is true, and so is a comparison of nothing with nothing.",
    remedy="Without a program, or without a result for each test, the answer is wrong.",
    source="ours",
    probes=(
        _says("empty-completion", lambda _: ""),
        _says("blank-completion", lambda _: " \n\t\n"),
        _says("words-only", lambda _: "I cannot solve this problem."),
        _says("empty-program", lambda _: fenced("")),
        _says("comment-only", lambda _: fenced("# later")),
        _says("pass-only", lambda _: fenced("pass")),
        _says("another-name", lambda _: fenced("def something_else(*values):\n    return 1\n")),
        _says("guarded", lambda _: fenced("if False:\n    print('no answer')\n")),
        _says("unfinished", lambda problem: f"```python\n{problem.wrong_program()[:12]}"),
    ),
)
