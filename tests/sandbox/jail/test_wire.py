"""The answers of a worker are plain data: a worker that a program has taken over can lie, but do nothing else."""

import os
import pickle
from collections.abc import Iterator

import pytest

from sandbox import ExecutionLost, RefereeError, RunResult
from sandbox.errors import KilledExternally
from sandbox.jail.channel import Channel
from sandbox.judge import CaseJudgement, Judgement, Verdict
from sandbox.program import Outcome

RESULT = RunResult(Outcome.EXITED, 0, b"\0\xff", b"words", 0.5, 0.25, 1.5, b"[1]", {"name": b"\x80"})
JUDGEMENT = Judgement(Verdict.WRONG_ANSWER, (CaseJudgement(Verdict.WRONG_ANSWER, 1, 2, 3, "\ud800", 0.5),), 2)
ANSWERS = [RESULT, JUDGEMENT]
ERRORS = [
    ExecutionLost("gone"),
    KilledExternally("killed"),
    RefereeError("crashed"),
    ValueError("wrong"),
    KeyError("x"),
]


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    (read_here, write_there), (read_there, write_here) = os.pipe(), os.pipe()
    here, there = Channel(read_here, write_here), Channel(read_there, write_there)
    yield here, there
    here.close()
    there.close()


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: type(answer).__name__)
def test_an_answer_arrives_as_it_was(ends: tuple[Channel, Channel], answer: RunResult | Judgement) -> None:
    here, there = ends
    there.send_response(answer)
    assert here.receive_response(type(answer)) == answer


def test_what_isolates_runs_arrives_as_it_was(ends: tuple[Channel, Channel]) -> None:
    here, there = ends
    there.send_layers({"user": "none: no"})
    assert here.receive_layers() == {"user": "none: no"}


def test_an_answer_of_another_type_is_a_worker_that_is_lost(ends: tuple[Channel, Channel]) -> None:
    here, there = ends
    there.send_response(RESULT)
    with pytest.raises(ConnectionError, match="expected Judgement, not 'RunResult'"):
        here.receive_response(Judgement)
    there.send_layers({"user": "none: no"})
    with pytest.raises(ConnectionError, match="expected RunResult, not 'layers'"):
        here.receive_response(RunResult)
    there.send_response(JUDGEMENT)
    with pytest.raises(ConnectionError, match="expected layers, not 'Judgement'"):
        here.receive_layers()


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_arrives_with_its_type_and_message(ends: tuple[Channel, Channel], error: Exception) -> None:
    here, there = ends
    there.send_response(error)
    arrived = here.receive_response(RunResult)
    assert type(arrived) is type(error)
    assert str(error) in str(arrived)


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("/tmp/what-a-pickle-can-do",)


HOSTILE = {
    "a pickle": pickle.dumps(Bomb()),
    "no JSON": b"{",
    "another kind": b'["Program", {"source": "x"}]',
    "an error that is not ours": b'["SystemExit", "0"]',
    "a field too many": b'["Judgement", {"verdict": "accepted", "cases": [], "n_cases": 0, "more": 1}]',
    "a verdict that does not exist": b'["Judgement", {"verdict": "perfect", "cases": [], "n_cases": 0}]',
    "nesting": b"[" * 100_000,
    "nothing": b"",
}


@pytest.mark.parametrize("sent", HOSTILE.values(), ids=HOSTILE)
def test_any_other_answer_means_that_the_worker_is_lost(ends: tuple[Channel, Channel], sent: bytes) -> None:
    here, there = ends
    os.write(there._sink, len(sent).to_bytes(8, "little") + sent[:60_000])
    there.close()
    with pytest.raises((ConnectionError, EOFError)):
        here.receive_response(Judgement)
    assert not os.path.exists("/tmp/what-a-pickle-can-do")
    there._source, there._sink = os.pipe()


def test_an_announced_length_takes_no_memory(ends: tuple[Channel, Channel]) -> None:
    here, there = ends
    os.write(there._sink, (1 << 60).to_bytes(8, "little") + b"x")
    there.close()
    with pytest.raises(EOFError):
        here.receive_response(Judgement)
    there._source, there._sink = os.pipe()
