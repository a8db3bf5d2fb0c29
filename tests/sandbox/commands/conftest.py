"""A fixture: the commands that tests run in this process share workers."""

from collections.abc import Iterator

import pytest
from shared_workers import shared_workers


@pytest.fixture(scope="module", autouse=True)
def _shared_workers() -> Iterator[None]:
    with shared_workers():
        yield
