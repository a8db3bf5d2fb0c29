"""A fixture: one real Sandbox for all tests that only judge."""

from collections.abc import Iterator

import pytest

from sandbox import Sandbox


@pytest.fixture(scope="session")
def box() -> Iterator[Sandbox]:
    with Sandbox(workers=2) as box:
        yield box
