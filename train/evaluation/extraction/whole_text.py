"""The whole text is the program, as for models that continue the text of a program."""

from sandbox import Program

NAME = "whole"


def program(answer: str, languages: tuple[str, ...]) -> Program | None:
    """Return the program; None if the text is blank. It is taken for Python."""
    return Program(answer) if answer.strip() else None
