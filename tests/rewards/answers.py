"""Helpers to write answers concisely."""

from rewards import Answer


def program_answer(source: str, *, truncated: bool = False) -> Answer:
    """Return an answer that contains a program."""
    return text_answer(f"So:\n```python\n{source}\n```\n", truncated=truncated)


def text_answer(text: str, n_tokens: int = 10, *, truncated: bool = False) -> Answer:
    return Answer(text, n_tokens, truncated)
