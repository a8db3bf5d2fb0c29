"""Fixtures: one real Sandbox for all tests that only judge, and the judgements of tables of programs (see batch)."""

from collections.abc import Iterator

import pytest
from batch import Answer, Batch

from sandbox import Judgement, Sandbox


@pytest.fixture(scope="session")
def box() -> Iterator[Sandbox]:
    with Sandbox(workers=4) as box:
        yield box


@pytest.fixture
def judge(box: Sandbox) -> Sandbox:
    """Return the Sandbox that judges tables of programs. A module may put another in its place."""
    return box


@pytest.fixture
def answer(asked: tuple[Batch, str], judge: Sandbox, request: pytest.FixtureRequest) -> Answer:
    """Return the judgement of the program of a test, or the exception that judging it raised."""
    batch, name = asked
    return batch.answer(name, judge, request.session.items)


@pytest.fixture
def judgement(answer: Answer) -> Judgement:
    """Return the judgement of the program of a test."""
    if isinstance(answer, Exception):
        raise answer
    return answer


@pytest.fixture
def name(asked: tuple[Batch, str]) -> str:
    """Return the name of the program of a test in its table."""
    return asked[1]
