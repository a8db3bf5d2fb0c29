"""Answers, written down shortly."""

from rewards.reward import Answer


def program(source: str, *, truncated: bool = False) -> Answer:
    return say(f"So:\n```python\n{source}\n```\n", truncated=truncated)


def say(text: str, n_tokens: int = 10, *, truncated: bool = False) -> Answer:
    return Answer(text, n_tokens, truncated)
