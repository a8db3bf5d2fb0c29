"""Between JSON and what a Sandbox is asked and answers. Plain functions, for they run here where there is little to do
and in another process where there is much: see helpers.py.

A request is a tuple as sandbox/backends/__init__.py has it, or a pickle of one, which is opened where it is its turn.
"""

import pickle
from collections.abc import Set
from dataclasses import dataclass, replace
from typing import Any

from sandbox import messages, record
from sandbox.judge import Judgement
from sandbox.messages import JudgeRequest, RunRequest
from sandbox.program import Limits, Program, RunResult
from sandbox.service import bounds, sandboxfusion
from sandbox.service.bounds import Bounds
from sandbox.service.refusals import Malformed, malformed

Request = tuple[Any, ...]

SMALL_BYTES = 64 * 1024  # that are read and written in a few milliseconds
_SMALL_CASES = 200
_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


@dataclass(frozen=True, slots=True)
class Record:
    """One of a batch: its request, or in words what is wrong with it."""

    identity: str | int | None
    request: Request | bytes | str


@dataclass(frozen=True, slots=True)
class Batch:
    """What POST /judge was sent. alone: one record, answered by one verdict."""

    records: tuple[Record, ...]
    alone: bool


def read(path: str, body: bytes, most: Bounds) -> Request | Batch:
    """What a body asks for. Raises Malformed."""
    _check_size(body, most)
    try:
        raw = messages.loads(body)
    except ValueError as error:
        raise Malformed(f"the body is not JSON: {error}") from None
    with malformed():
        match path:
            case "/judge":
                return _batch(raw, most)
            case "/run_code":
                program, invocation, limits, asked = sandboxfusion.parse(raw)
                return "run", program, invocation, bounds.granted(limits, asked, most.most)
            case "/run":
                run = messages.decode(RunRequest, raw)
                return "run", run.program, run.invocation, bounds.granted(run.limits, _limits(raw), most.most)
        judge = messages.decode(JudgeRequest, raw)
        limits = bounds.granted(judge.suite.limits, _limits(raw["suite"]), most.most)
        return "judge", judge.program, replace(judge.suite, limits=limits), judge.run_all


def read_and_pack(path: str, body: bytes, most: Bounds) -> bytes | Batch:
    """As read, with each request in a pickle of its own: there may be many, and large ones."""
    asked = read(path, body, most)
    if isinstance(asked, Batch):
        packed = (
            Record(each.identity, each.request if isinstance(each.request, str) else pickle.dumps(each.request))
            for each in asked.records
        )
        return Batch(tuple(packed), asked.alone)
    return pickle.dumps(asked)


def opened(request: Request | bytes) -> Request:
    """A request that came from read_and_pack, or from read."""
    if isinstance(request, bytes):
        request = pickle.loads(request)
    assert isinstance(request, tuple)
    return request


def is_small(result: RunResult | Judgement) -> bool:
    """Whether it is written in a few milliseconds."""
    if isinstance(result, Judgement):
        return len(result.cases) <= _SMALL_CASES
    outputs = (result.stdout, result.stderr, result.returned or b"", *result.files.values())
    return sum(map(len, outputs)) <= SMALL_BYTES


def write(path: str, identity: str | int | None, language: str, limits: Limits, result: RunResult | Judgement) -> bytes:
    """The answer."""
    if path == "/judge":
        assert isinstance(result, Judgement)
        assert identity is not None
        return messages.dumps(record.verdict_line(identity, result))
    if path == "/run_code":
        assert isinstance(result, RunResult)
        return messages.dumps(sandboxfusion.response(Program("", language), limits, result))
    return messages.dumps(result)


def _check_size(body: bytes, most: Bounds) -> None:
    """Raises Malformed for more values or levels than may be read. Looks at nothing but the characters between
    strings, so that it costs little whatever the body is."""
    if body.count(b'"') > 4 * most.values:  # two for a value, and two for its name
        raise _too_many(most)
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    between = b"".join(plain.split(b'"')[::2])
    opening = between.count(b"[") + between.count(b"{")
    if between.count(b",") + opening + 1 > most.values:
        raise _too_many(most)
    depth = 0
    for bracket in between.translate(None, _BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > most.depth:
            raise Malformed(f"the body is nested too deeply: at most {most.depth} arrays and objects in one another")


def _too_many(most: Bounds) -> Malformed:
    return Malformed(f"the body holds more than {most.values:,} JSON values; send several smaller requests")


def _batch(raw: Any, most: Bounds) -> Batch:
    several = raw.get("records") if isinstance(raw, dict) and "records" in raw else raw
    if isinstance(several, dict):
        return Batch((Record(several.get("id"), _request(several, most)),), alone=True)
    if not isinstance(several, list):
        raise Malformed("the body must be a record, an array of records, or an object with the array `records`")
    if len(several) > most.records:
        raise Malformed(f"a request may hold {most.records:,} records, not {len(several):,}; send several")
    return Batch(tuple(_record(each, most) for each in several), alone=False)


def _record(raw: Any, most: Bounds) -> Record:
    identity = raw.get("id") if isinstance(raw, dict) else None
    identity = identity if isinstance(identity, str | int) else None
    try:
        with malformed():
            return Record(identity, _request(raw, most))
    except Malformed as error:
        return Record(identity, str(error))


def _request(raw: Any, most: Bounds) -> Request:
    _, program, suite = record.parse(raw)
    names = {"time_limit_s": "wall_seconds", "memory_limit_mb": "memory_mb"}
    asked = {limit for name, limit in names.items() if name in raw}
    return "judge", program, replace(suite, limits=bounds.granted(suite.limits, asked, most.most)), False


def _limits(raw: Any) -> Set[str]:
    """Names of the limits that an object has asked for."""
    return set(raw.get("limits") or ())
