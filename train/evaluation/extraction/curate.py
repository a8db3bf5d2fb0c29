"""Our rule, by which training finds the program, too: see rewards/extract/program.py."""

from rewards.extract import extract_submission
from sandbox import Program

NAME = "curate"


def program(answer: str, languages: tuple[str, ...]) -> Program | None:
    """Return the program, which is in one of the languages; None if there is none."""
    return extract_submission(answer, languages)
