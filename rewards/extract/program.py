"""The program in a completion.

Outside the model's thinking (see thinking.py), the program is the last fenced block (see code_blocks.py) labeled with
an allowed language. Without one, it is the last unlabeled block, which counts as Python.

A block below the program may be an example. So if there is another block, the extractor skips interactive sessions,
which begin with `>>>`, `In [1]:` or `$`, and blocks that define or call nothing outside comments and strings. Otherwise
the last block is the program, even if it is wrong or does not compile.
"""

import re
from functools import partial

from rewards.extract.code_blocks import CPP, PYTHON, parse_code_blocks
from rewards.extract.thinking import strip_thinking
from sandbox import Program, Suite, languages

PYTHON_ONLY = (PYTHON,)
_SESSION = re.compile(r"(?:[ \t]*+(?:#[^\n]*+)?+\n)*+[ \t]*+(?:>>>|\$[ \t]|In[ ]\[\d++\]:)")
# Comments and strings come first, so their content does not match as code. An unclosed one extends to the end of the
# line or the text, so matching takes linear time.
_PYTHON_TEXT = r"#[^\n]*+|\"{3}(?:[^\"\\]|\\.|\"(?!\"\"))*+(?:\"{3})?+|'{3}(?:[^'\\]|\\.|'(?!''))*+(?:'{3})?+"
_CPP_TEXT = r"//[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/)?+"
_STRING = r"\"(?:[^\"\\\n]|\\.)*+\"?+|'(?:[^'\\\n]|\\.)*+'?+"
_CODE = r"(?P<code>\b(?:def|class|lambda|import)\b|\w[ \t]*+\()"
_DEFINES_OR_CALLS = {
    PYTHON: re.compile(f"{_PYTHON_TEXT}|{_STRING}|{_CODE}", re.DOTALL),
    CPP: re.compile(f"{_CPP_TEXT}|{_STRING}|{_CODE}", re.DOTALL),
}


def extract_program(completion: str) -> str | None:
    """Return the source of the Python program in a completion; None without one. Takes linear time on any text."""
    program = extract_submission(completion)
    return program.source if program is not None else None


def extract_submission(
    completion: str, allowed: tuple[str, ...] = PYTHON_ONLY, *, labeled_only: bool = False
) -> Program | None:
    """Return the program in a completion; None without one. Takes linear time on any text.

    allowed       allowed languages, as in labels of fences: "python", "cpp"
    labeled_only  whether to ignore unlabeled blocks
    """
    find = partial(_find_candidates, allowed=allowed, labeled_only=labeled_only)
    text = strip_thinking(completion, lambda text: any(map(_is_program, find(text))))
    if text is None:
        return None
    candidates = find(text)
    return next(filter(_is_program, candidates), candidates[0] if candidates else None)


def select_languages(suite: Suite, allowed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the allowed languages that a suite can judge; only Python if its tests call functions."""
    return tuple(name for name in allowed if name in PYTHON_ONLY) if suite.needs_python else allowed


def check_languages(name: str, allowed: object) -> tuple[str, ...]:
    """Return languages as a sorted tuple without repetitions. name: name of the parameter, for error messages

    Raises TypeError or ValueError unless all are languages of the sandbox.
    """
    if isinstance(allowed, str) or not isinstance(allowed, tuple | list):
        raise TypeError(f'{name} must be a tuple of languages, such as ("python", "cpp"), not {allowed!r}')
    if not allowed or not set(allowed) <= set(languages.list_names()):
        raise ValueError(f"{name} must be one or more of {', '.join(languages.list_names())}, not {allowed!r}")
    return tuple(sorted(set(allowed)))


def _find_candidates(text: str, allowed: tuple[str, ...], *, labeled_only: bool) -> list[Program]:
    # Labeled blocks take precedence, then later ones.
    blocks = sorted(reversed(parse_code_blocks(text)), key=lambda block: not block.language)
    if labeled_only:
        blocks = [block for block in blocks if block.language]
    candidates = ((block.language or PYTHON, block.source) for block in blocks)
    return [Program(source, language) for language, source in candidates if language in allowed]


def _is_program(program: Program) -> bool:
    parts = _DEFINES_OR_CALLS[program.language].finditer(program.source)
    return any(part["code"] for part in parts) and _SESSION.match(program.source) is None
