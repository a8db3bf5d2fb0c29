from shared_workers import _shared_workers  # noqa: F401
