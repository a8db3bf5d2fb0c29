"""Completions with a correct program only in the thinking, in a string, or in a block of another kind."""

from sandbox.probes.probe import Group, ProbeClass, make_completion_probe


def _format_block(program: str, label: str = "python") -> str:
    return f"```{label}\n{program}\n```\n"


_LAST_BLOCK = "LiveCodeBench and rLLM extract the last block of the whole completion"

CLASS = ProbeClass(
    Group.EXTRACT,
    "thoughts",
    why="The judge searches the whole completion for code, including the thinking.",
    remedy="Remove the thinking first, and extract the program only from the rest.",
    source="ours",
    probes=(
        make_completion_probe(
            "then-a-wrong-answer",
            lambda right, wrong: f"<think>\n{_format_block(right)}</think>\n{_format_block(wrong)}",
        ),
        make_completion_probe(
            "then-no-answer", lambda right, _: f"<think>\n{_format_block(right)}</think>\nI give up.\n", _LAST_BLOCK
        ),
        make_completion_probe(
            "never-closed", lambda right, _: f"<think>\nPerhaps this:\n{_format_block(right)}", _LAST_BLOCK
        ),
        make_completion_probe(
            "after-a-wrong-answer",
            lambda right, wrong: f"{_format_block(wrong)}\n<think>\nPerhaps this:\n{_format_block(right)}</think>\n",
            _LAST_BLOCK,
        ),
        make_completion_probe(
            "block-in-a-string",
            lambda right, wrong: _format_block(f'NOTES = """\n{_format_block(right)}"""\n{wrong}'),
            "many extractors treat any fence with a language as the start of a block, even inside a string",
        ),
        make_completion_probe(
            "output-block-first",
            lambda right, wrong: f"{_format_block(wrong)}\nIts output:\n{_format_block(right, 'text')}",
            "a judge that extracts the last block of any label extracts this one",
        ),
        make_completion_probe(
            "unclosed-block", lambda right, _: f"```python\n{right}\n", "a truncated completion may hold all of it"
        ),
        make_completion_probe(
            "without-a-fence", lambda right, _: f"{right}\n", "some judges run the whole completion as the program"
        ),
    ),
)
