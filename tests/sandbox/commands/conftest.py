"""A fixture: the commands that tests run in this process share workers."""

from shared_workers import _shared_workers  # noqa: F401
