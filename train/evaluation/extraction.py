"""Rules that find the program in an answer, by the names that users type.

curate    ours, by which training finds the program, too: see rewards/extract/program.py
lcb       LiveCodeBench's: of the lines with three backticks in them, what stands between the last two
evalplus  EvalPlus's for answers in Markdown: the first block of Python, or the last one after the model's thoughts
whole     the whole text, for models that continue the text of a program

Only our own rule knows languages other than Python.
"""

from collections.abc import Callable

from rewards.extract import extract_submission
from rewards.extract.code_blocks import PYTHON, parse_code_blocks
from sandbox import Program

_THOUGHT_ENDS = "</think>"


def _between_last_fences(answer: str, languages: tuple[str, ...]) -> Program | None:
    lines = answer.split("\n")
    fences = [number for number, line in enumerate(lines) if "```" in line]
    if len(fences) < 2:
        return None
    return _whole_text("\n".join(lines[fences[-2] + 1 : fences[-1]]), languages)


def _markdown_block(answer: str, languages: tuple[str, ...]) -> Program | None:
    """Blocks without a language are taken for Python where no block names Python.

    EvalPlus then keeps only the imports and definitions that the function needs, the first definition of a name, and no
    function without `return`; we run the block as it is.
    """
    _, thought_ends, rest = answer.rpartition(_THOUGHT_ENDS)
    found = parse_code_blocks(rest)
    named = [block for block in found if block.language == PYTHON] or [block for block in found if not block.language]
    return Program(named[-1 if thought_ends else 0].source) if named else None


def _whole_text(answer: str, languages: tuple[str, ...]) -> Program | None:
    return Program(answer) if answer.strip() else None


DEFAULT = "curate"
_RULES: dict[str, Callable[[str, tuple[str, ...]], Program | None]] = {
    DEFAULT: extract_submission,
    "lcb": _between_last_fences,
    "evalplus": _markdown_block,
    "whole": _whole_text,
}
NAMES = tuple(_RULES)


def extract_program(rule: str, answer: str, languages: tuple[str, ...]) -> Program | None:
    """Return the program in an answer; None if there is none.

    rule       the name of the rule
    languages  the languages that the answer may be written in
    """
    return _RULES[rule](answer, languages)


def rule_identity(rule: str) -> list[list[str]]:
    """Return JSON values by which verdicts under this rule are told apart; nothing for the default rule."""
    return [] if rule == DEFAULT else [["extraction", rule]]
