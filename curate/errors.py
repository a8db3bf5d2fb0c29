"""The one exception that curate raises on purpose, and the only one that a caller need catch."""


class CurateError(Exception):
    """The work cannot go on: the message says what is wrong and what to type next."""
