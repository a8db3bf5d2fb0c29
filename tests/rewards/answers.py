"""Helpers to write answers concisely."""

from rewards import Completion


def program_answer(source: str, *, truncated: bool = False) -> Completion:
    """Return an answer that contains a program."""
    return text_answer(f"So:\n```python\n{source}\n```\n", truncated=truncated)


def text_answer(text: str, n_tokens: int = 10, *, truncated: bool = False) -> Completion:
    return Completion(text, n_tokens, truncated)
