import os
from collections.abc import Iterator
from typing import Any

import pytest

from rewards import process_singletons
from sandbox import Judgement, Sandbox


@pytest.fixture(scope="session")
def box() -> Iterator[Sandbox]:
    with Sandbox(workers=2) as box:
        yield box


@pytest.fixture(scope="session")
def closed_box() -> Sandbox:
    box = Sandbox(workers=1)
    box.close()
    return box


@pytest.fixture
def lost_sandbox(closed_box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """Put a closed sandbox in place of the one that this process shares."""
    monkeypatch.setattr(process_singletons, "_singletons", {(os.getpid(), "sandbox"): closed_box})
    return closed_box


class Defective(Sandbox):
    """A sandbox that raises an error which it should not raise."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def judge(self, *_: Any, **__: Any) -> Judgement:
        raise self._error


@pytest.fixture(params=[RecursionError(), MemoryError(), OverflowError(), OSError(), KeyError("x")], ids=repr)
def defective_sandbox(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a sandbox with a defect in place of the one that this process shares."""
    monkeypatch.setattr(process_singletons, "_singletons", {(os.getpid(), "sandbox"): Defective(request.param)})
