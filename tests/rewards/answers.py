"""Helpers to write answers concisely."""

from rewards import Completion, Task
from sandbox import Case, Suite


def program_answer(source: str, *, truncated: bool = False) -> Completion:
    """Return an answer that contains a program."""
    return text_answer(f"So:\n```python\n{source}\n```\n", truncated=truncated)


def text_answer(text: str, n_tokens: int = 10, *, truncated: bool = False) -> Completion:
    return Completion(text, n_tokens, truncated)


DOUBLES = Task(tests=Suite([Case(f"{n}\n", f"{2 * n}\n") for n in range(5)]))
RIGHT, WRONG = program_answer("print(2 * int(input()))"), program_answer("print(0)")
