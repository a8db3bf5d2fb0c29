"""Correct programs in completions of many forms."""

from collections.abc import Callable

from sandbox.probes.probe import ALL_CONVENTIONS, Group, JudgeProbe, ProbeClass, ProbeProblem, Submissions


def _make_form_probe(name: str, form: Callable[[str, str], str]) -> JudgeProbe:
    def make(problem: ProbeProblem) -> Submissions:
        return Submissions(
            problem, (form(problem.build_right_program().rstrip(), problem.build_wrong_program().rstrip()),)
        )

    return JudgeProbe(name, ALL_CONVENTIONS, make, is_correct=True)


CLASS = ProbeClass(
    Group.EXTRACT,
    "right-answers",
    why="The judge does not find the program in a usual completion.",
    remedy="Remove the thinking, then extract the last closed block of Python.",
    source="ours",
    probes=(
        _make_form_probe("block-only", lambda right, _: f"```python\n{right}\n```"),
        _make_form_probe(
            "words-around", lambda right, _: f"First, I read `n`.\n\n```python\n{right}\n```\n\nIt runs in O(n).\n"
        ),
        _make_form_probe(
            "after-thoughts", lambda right, _: f"<think>\nIt is easy.\n</think>\n\n```python\n{right}\n```\n"
        ),
        _make_form_probe(
            "wrong-draft-in-thoughts",
            lambda right, wrong: (
                f"<think>\nPerhaps:\n```python\n{wrong}\n```\nNo.\n</think>\n\n```python\n{right}\n```\n"
            ),
        ),
        _make_form_probe("blank-lines", lambda right, _: f"\n\n```python\n\n\n{right}\n\n\n```\n\n\n"),
        _make_form_probe("comment-first", lambda right, _: f"```python\n# The solution.\n{right}\n```\n"),
    ),
)
