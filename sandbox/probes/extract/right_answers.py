"""Correct programs in completions of many forms."""

from collections.abc import Callable

from sandbox.probes.probe import Group, JudgeProbe, ProbeClass, make_completion_probe


def _make_correct_probe(name: str, write_completion: Callable[[str, str], str]) -> JudgeProbe:
    return make_completion_probe(name, write_completion, is_correct=True)


CLASS = ProbeClass(
    Group.EXTRACT,
    "right-answers",
    why="The judge does not find the program in an ordinary completion.",
    remedy="Remove the thinking, then extract the last closed block of Python.",
    source="ours",
    probes=(
        _make_correct_probe("block-only", lambda right, _: f"```python\n{right}\n```"),
        _make_correct_probe(
            "words-around", lambda right, _: f"First, I read `n`.\n\n```python\n{right}\n```\n\nIt runs in O(n).\n"
        ),
        _make_correct_probe(
            "after-thoughts", lambda right, _: f"<think>\nIt is easy.\n</think>\n\n```python\n{right}\n```\n"
        ),
        _make_correct_probe(
            "wrong-draft-in-thoughts",
            lambda right, wrong: (
                f"<think>\nPerhaps:\n```python\n{wrong}\n```\nNo.\n</think>\n\n```python\n{right}\n```\n"
            ),
        ),
        _make_correct_probe("blank-lines", lambda right, _: f"\n\n```python\n\n\n{right}\n\n\n```\n\n\n"),
        _make_correct_probe("comment-first", lambda right, _: f"```python\n# The solution.\n{right}\n```\n"),
    ),
)
