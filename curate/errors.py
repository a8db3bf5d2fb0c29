"""The one exception that curate raises on purpose; `cli.py` shows its message and nothing else."""


class CurateError(Exception):
    """The build cannot go on: the message says what is wrong and what to type next."""
