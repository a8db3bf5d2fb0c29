"""EvalPlus's rule for answers in Markdown: the first block of Python, or the last one after the model's thoughts.

Where no block names Python, blocks without a name are taken for Python. EvalPlus then keeps only the imports and
definitions that the function needs, the first definition of a name, and no function without `return`; we run the block
as it is.
"""

from rewards.extract.code_blocks import PYTHON, parse_code_blocks
from sandbox import Program

NAME = "evalplus"
_THOUGHT_ENDS = "</think>"


def program(answer: str, languages: tuple[str, ...]) -> Program | None:
    """Return the program; None if there is none. It is taken for Python."""
    _, thought_ends, rest = answer.rpartition(_THOUGHT_ENDS)
    found = parse_code_blocks(rest)
    named = [block for block in found if block.language == PYTHON] or [block for block in found if not block.language]
    if not named:
        return None
    return Program(named[-1 if thought_ends else 0].source)
