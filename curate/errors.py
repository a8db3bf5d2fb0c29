"""The exceptions that curate raises on purpose. A caller need catch only the first."""


class CurateError(Exception):
    """The work cannot go on: the message says what is wrong and what to type next."""


class PlanMismatchError(CurateError):
    """The output folder holds a dataset or an export that was made otherwise; the caller may ask to replace it."""
