import os
from collections.abc import Iterator

import pytest

from rewards import shared
from sandbox import Sandbox


@pytest.fixture(scope="session")
def box() -> Iterator[Sandbox]:
    with Sandbox(workers=2) as box:
        yield box


@pytest.fixture
def lost_sandbox(monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """Put a closed sandbox in place of the one that this process shares."""
    box = Sandbox(workers=1)
    box.close()
    monkeypatch.setattr(shared, "_parts", {(os.getpid(), "sandbox"): box})
    return box
