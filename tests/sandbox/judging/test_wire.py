"""A worker's responses are plain data: a hostile worker can send false values, but execute no code at its caller."""

import contextlib
import os
import pickle
import struct
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox import Case, ExecutionLost, Limits, Program, RefereeError, RunResult, Suite
from sandbox.errors import KilledExternally
from sandbox.judge import CaseJudgement, Judgement, Verdict
from sandbox.judging import message_codec
from sandbox.judging.channel import Channel
from sandbox.judging.message_codec import decode_layers, decode_response, encode_response
from sandbox.program import Invocation, Outcome
from sandbox.request import JudgeRequest, Request, RunRequest

RUN = RunRequest(Program("print(1)"), Invocation(b"\xff", ("a",), {"name": b"\x80"}, ("name",)), Limits(3))
CASES = [Case("1", "\ud800"), Case("2", "", "trial")]
JUDGE = JudgeRequest(Program("int main() {}", "cpp"), Suite(CASES, limits=Limits(2)), keep_outputs=True)
RESULT = RunResult(Outcome.EXITED, -9, b"\0\xff", b"words", 0.5, 0.25, 1.5, b"[1]", {"name": b"\x80"})
JUDGEMENT = Judgement(Verdict.WRONG_ANSWER, (CaseJudgement(Verdict.WRONG_ANSWER, 1, 2, 3, "\ud800", 0.5),), 2)
RESPONSES: list[tuple[Request[Any], Any]] = [
    (RUN, RESULT),
    (RUN, RunResult(Outcome.TIMED_OUT, 0, b"", b"", 0, 0, 0, b"")),
    (RUN, RunResult(Outcome.NOT_COMPILED, 1, b"", b"", 0, 0, 0)),
    (JUDGE, JUDGEMENT),
    (JUDGE, Judgement(Verdict.ACCEPTED, (CaseJudgement(Verdict.ACCEPTED, 1, 2, 3, "é", 0),) * 2, 2, ("", "é\n"))),
]
ERRORS = [
    ExecutionLost("gone"),
    KilledExternally("killed"),
    RefereeError("crashed \udcff"),
    ValueError("wrong"),
    KeyError("x"),
]
VALID = {"layers": encode_response({"user": "none: no"}), "error": encode_response(ERRORS[0])}
VALID |= {"RunResult": encode_response(RESULT), "Judgement": encode_response(JUDGEMENT)}
TEXT = st.text(st.characters(), max_size=9)  # lone surrogates, too
NUMBER = st.floats(0, 1e9)
DETAILS = st.lists(st.builds(CaseJudgement, st.sampled_from(Verdict), NUMBER, NUMBER, NUMBER, TEXT, NUMBER), min_size=1)


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    (caller_reads, worker_writes), (worker_reads, caller_writes) = os.pipe(), os.pipe()
    caller, worker = Channel(caller_reads, caller_writes), Channel(worker_reads, worker_writes)
    yield caller, worker
    caller.close()
    worker.close()


@pytest.mark.parametrize("request_", [RUN, JUDGE], ids=lambda request: type(request).__name__)
def test_a_request_round_trips(ends: tuple[Channel, Channel], request_: Request[Any]) -> None:
    caller, worker = ends
    for _ in range(2):  # the second one uses the cached suite
        caller.send_request(request_)
        assert worker.receive_request() == request_


def test_the_cache_of_encoded_suites_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_codec, "_MAX_CACHED_BYTES", 10_000)
    cache = message_codec._EncodedSuites()
    suites = [Suite([Case(f"{number}" * 3000, "")]) for number in range(10)]
    for suite in (*suites, suites[-1], suites[0], Suite([Case("x" * 20_000, "")])):
        assert pickle.loads(cache.get(suite)) == suite
        assert sum(len(encoded) for _, encoded in cache._entries.values()) == cache._n_bytes <= 10_000
    assert cache.get(suites[0]) is not cache.get(suites[1])


@pytest.mark.parametrize(("sent", "response"), RESPONSES)
def test_a_response_round_trips(ends: tuple[Channel, Channel], sent: Request[Any], response: Any) -> None:
    caller, worker = ends
    worker.send_response(response)
    assert caller.receive_response(sent) == response


@given(DETAILS, st.booleans(), st.integers(0, 99))
def test_any_judgement_round_trips(cases: list[CaseJudgement], keep_outputs: bool, not_run: int) -> None:
    outputs = tuple(case.detail for case in cases) if keep_outputs else ()
    judgement = Judgement(cases[0].verdict, tuple(cases), len(cases) + not_run, outputs)
    assert decode_response(Judgement, encode_response(judgement)) == judgement


def test_isolation_layers_round_trip(ends: tuple[Channel, Channel]) -> None:
    caller, worker = ends
    worker.send_response({"user": "none: no"})
    assert caller.receive_layers() == {"user": "none: no"}


def test_a_response_of_another_type_is_an_error(ends: tuple[Channel, Channel]) -> None:
    caller, worker = ends
    worker.send_response(RESULT)
    with pytest.raises(ConnectionError, match="expected Judgement, not 'RunResult'"):
        caller.receive_response(JUDGE)
    worker.send_response({"user": "none: no"})
    with pytest.raises(ConnectionError, match="expected RunResult, not 'layers'"):
        caller.receive_response(RUN)
    worker.send_response(JUDGEMENT)
    with pytest.raises(ConnectionError, match="expected layers, not 'Judgement'"):
        caller.receive_layers()


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_arrives_with_its_type_and_message(ends: tuple[Channel, Channel], error: Exception) -> None:
    caller, worker = ends
    worker.send_response(error)
    arrived = caller.receive_response(RUN)
    assert type(arrived) is type(error)
    assert str(error) in str(arrived)


def test_a_long_error_is_truncated(ends: tuple[Channel, Channel]) -> None:
    caller, worker = ends
    worker.send_response(ValueError("x" * 50_000))
    assert 5_000 < len(str(caller.receive_response(RUN))) < 50_000


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("/tmp/what-a-pickle-can-do",)


def encode_message(kind: int, numbers: bytes, *strings: bytes) -> bytes:
    head = struct.pack("<BII", kind, len(numbers), len(strings))
    return head + b"".join(len(string).to_bytes(8, "little") for string in strings) + numbers + b"".join(strings)


def encode_judgement(
    verdict: int = 0, n_cases: int = 1, cases: tuple[tuple[Any, ...], ...] = ((0, 0, 0, 0, 0),)
) -> bytes:
    return struct.pack("<BI", verdict, n_cases) + b"".join(struct.pack("<B4d", *case) for case in cases)


assert decode_response(Judgement, encode_message(3, encode_judgement(), b"")).accepted  # type: ignore[union-attr]
NAN, INFINITY = float("nan"), float("inf")
HOSTILE = {
    "a pickle": pickle.dumps(Bomb()),
    "nothing": b"",
    "a kind that does not exist": encode_message(4, b""),
    "an error that is not ours": encode_message(1, b"", b"SystemExit", b"0"),
    "an error without a message": encode_message(1, b"", b"ValueError"),
    "a verdict that does not exist": encode_message(3, encode_judgement(verdict=8), b""),
    "a case's verdict that does not exist": encode_message(3, encode_judgement(cases=((200, 0, 0, 0, 0),)), b""),
    "a time that is no number": encode_message(3, encode_judgement(cases=((0, NAN, 0, 0, 0),)), b""),
    "memory without end": encode_message(3, encode_judgement(cases=((0, 0, 0, INFINITY, 0),)), b""),
    "times that cancel out": encode_message(3, encode_judgement(cases=((0, INFINITY, -INFINITY, 0, 0),)), b""),
    "no case": encode_message(3, encode_judgement(n_cases=0, cases=())),
    "more cases than there are": encode_message(3, encode_judgement(cases=((0, 0, 0, 0, 0),) * 2), b"", b""),
    "no detail": encode_message(3, encode_judgement()),
    "an output too many": encode_message(3, encode_judgement(), b"", b"", b""),
    "text that is none": encode_message(3, encode_judgement(), b"\xff"),
    "numbers too many": encode_message(3, encode_judgement() + b"\0", b""),
    "bytes too many": encode_message(3, encode_judgement(), b"") + b"\0",
    "strings without end": struct.pack("<BII", 3, 0, 2**32 - 1),
    "a string without end": struct.pack("<BIIQ", 3, 0, 1, 2**64 - 1),
}


@pytest.mark.parametrize("sent", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_response_is_an_error(ends: tuple[Channel, Channel], sent: bytes) -> None:
    caller, worker = ends
    os.write(worker._sink, len(sent).to_bytes(8, "little") + sent)
    with pytest.raises(ConnectionError):
        caller.receive_response(JUDGE)
    assert not os.path.exists("/tmp/what-a-pickle-can-do")


HOSTILE_RUNS = {
    "an outcome that does not exist": struct.pack("<Bi3d?", 7, 0, 0, 0, 0, False),
    "a time that is no number": struct.pack("<Bi3d?", 0, 0, NAN, 0, 0, False),
    "too few numbers": struct.pack("<Bi3d", 0, 0, 0, 0, 0),
}


@pytest.mark.parametrize("numbers", HOSTILE_RUNS.values(), ids=HOSTILE_RUNS)
def test_a_run_is_decoded_as_strictly(numbers: bytes) -> None:
    for strings in ((b"", b"", b""), (b"", b"", b"", b"name"), (b"",), (b"", b"", b"a value that is not there")):
        with pytest.raises(ValueError, match="."):
            decode_response(RunResult, encode_message(2, numbers, *strings))


def decode_with_each(data: bytes) -> list[Any]:
    """Return the results of all decoders that accept the bytes; the others must raise ValueError."""
    found: list[Any] = []
    for decode in (decode_layers, partial(decode_response, RunResult), partial(decode_response, Judgement)):
        with contextlib.suppress(ValueError):
            found.append(decode(data))
    return found


@pytest.mark.parametrize("valid", VALID.values(), ids=VALID)
def test_a_prefix_of_a_response_is_an_error(valid: bytes) -> None:
    assert decode_with_each(valid)
    for length in range(len(valid)):
        assert decode_with_each(valid[:length]) == []
    for more in (b"\0", valid):
        assert decode_with_each(valid + more) == []


@given(st.sampled_from(sorted(VALID)), st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), min_size=1))
def test_changed_bytes_are_a_response_or_an_error(kind: str, changes: list[tuple[int, int]]) -> None:
    data = bytearray(VALID[kind])
    for index, value in changes:
        data[index % len(data)] = value
    for value in decode_with_each(bytes(data)):
        assert isinstance(value, RunResult | Judgement | dict | Exception)
        if isinstance(value, RunResult | Judgement):
            assert decode_response(type(value), encode_response(value)) == value


@given(st.binary(max_size=200), st.integers(0, 3), st.integers(0, 60), st.integers(0, 5))
def test_random_bytes_are_a_response_or_an_error(data: bytes, kind: int, n_numbers: int, n_strings: int) -> None:
    decode_with_each(data)
    decode_with_each(struct.pack("<BII", kind, n_numbers, n_strings) + data)


def test_an_announced_length_allocates_no_memory(ends: tuple[Channel, Channel]) -> None:
    caller, worker = ends
    for length, request in ((1 << 60, JUDGE), (JUDGE.max_result_bytes + 1, JUDGE), (1 << 25 + 1, RUN)):
        os.write(worker._sink, length.to_bytes(8, "little"))
        with pytest.raises(ConnectionError, match="expected at most"):
            caller.receive_response(request)


def test_eof_within_a_response_is_an_error(ends: tuple[Channel, Channel]) -> None:
    caller, worker = ends
    os.write(worker._sink, (1 << 20).to_bytes(8, "little") + b"x")
    os.close(worker._sink)
    with pytest.raises(EOFError):
        caller.receive_response(JUDGE)
    worker._source, worker._sink = os.pipe()


def test_a_second_response_is_an_error(ends: tuple[Channel, Channel]) -> None:
    caller, worker = ends
    worker.send_response(JUDGEMENT)
    worker.send_response(JUDGEMENT)
    with pytest.raises(ConnectionError, match="bytes follow the message"):
        caller.receive_response(JUDGE)
