"""Completions with a correct and a wrong program, in both orders. A sound judge rewards only one of the orders."""

from collections.abc import Callable

from sandbox.probes.probe import ALL_CONVENTIONS, Group, JudgeProbe, ProbeClass, ProbeProblem, Submissions


def _make_order_probe(name: str, write_completion: Callable[[str, str], str]) -> JudgeProbe:
    def make(problem: ProbeProblem) -> Submissions:
        correct, wrong = problem.build_correct_program().rstrip(), problem.build_wrong_program().rstrip()
        return Submissions(problem, (write_completion(correct, wrong), write_completion(wrong, correct)))

    return JudgeProbe(name, ALL_CONVENTIONS, make)


def _format_blocks(first: str, second: str, separator: str = "Or:", label: str = "python") -> str:
    return f"```python\n{first}\n```\n\n{separator}\n\n```{label}\n{second}\n```\n"


CLASS = ProbeClass(
    Group.EXTRACT,
    "hedges",
    why="The judge tries every code block and keeps the best result.",
    remedy="Select one block by a fixed rule, such as the last one, and judge only that.",
    source="ours",
    probes=(
        _make_order_probe("two-blocks", _format_blocks),
        _make_order_probe("two-labels", lambda first, second: _format_blocks(first, second, label="py")),
        _make_order_probe(
            "two-headings", lambda first, second: f"# First\n{_format_blocks(first, second, '# Second')}"
        ),
        _make_order_probe(
            "answer-tags",
            lambda first, second: "".join(
                f"<answer>\n```python\n{program}\n```\n</answer>\n" for program in (first, second)
            ),
        ),
    ),
)
