"""One Sandbox for all tests that only judge. It is the real one: nothing here is faked."""

from collections.abc import Iterator

import pytest

from sandbox import Sandbox


@pytest.fixture(scope="session")
def box() -> Iterator[Sandbox]:
    with Sandbox(workers=2) as box:
        yield box
