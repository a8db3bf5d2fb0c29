"""Submits a correct and a wrong program in one completion, in both orders. Only one of the orders may be rewarded."""

from collections.abc import Callable

from sandbox.probes.probe import ALL_CONVENTIONS, Group, JudgeProbe, ProbeClass, ProbeProblem, Submissions


def _pairs(name: str, form: Callable[[str, str], str]) -> JudgeProbe:
    def make(problem: ProbeProblem) -> Submissions:
        right, wrong = problem.right_program().rstrip(), problem.wrong_program().rstrip()
        return Submissions(problem, (form(right, wrong), form(wrong, right)))

    return JudgeProbe(name, ALL_CONVENTIONS, make)


def _between(first: str, second: str, words: str = "Or:", label: str = "python") -> str:
    return f"```python\n{first}\n```\n\n{words}\n\n```{label}\n{second}\n```\n"


CLASS = ProbeClass(
    Group.EXTRACT,
    "hedges",
    why="The judge tries every code block and keeps the best result.",
    remedy="Select one block by a fixed rule, such as the last one, and judge only that.",
    source="ours",
    probes=(
        _pairs("two-blocks", _between),
        _pairs("two-labels", lambda first, second: _between(first, second, label="py")),
        _pairs("two-headings", lambda first, second: f"# First\n{_between(first, second, '# Second')}"),
        _pairs("answer-tags", lambda first, second: "".join(
            f"<answer>\n```python\n{program}\n```\n</answer>\n" for program in (first, second)
        )),
    ),
)  # fmt: skip
