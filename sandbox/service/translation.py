"""From JSON to requests for the Sandbox, and from its results to JSON.

These are plain functions, because small bodies are translated in the service's own process and large ones in another
(helpers.py). A request is a RunRequest or a JudgeRequest, or a pickle of one, which is unpacked when its turn has come.
"""

import pickle
from dataclasses import dataclass, replace
from typing import Any

from sandbox import messages, record
from sandbox.judge import Judgement
from sandbox.program import Limits, Program, RunResult
from sandbox.request import JudgeRequest, RunRequest
from sandbox.service import bounds, sandboxfusion
from sandbox.service.bounds import Bounds
from sandbox.service.refusals import Malformed, malformed

Request = RunRequest | JudgeRequest

SMALL_BYTES = 64 * 1024  # this many are parsed or written in a few milliseconds
_SMALL_CASES = 200
_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a batch: its request, or a message that says what is wrong with it."""

    identity: str | int | None
    request: Request | bytes | str


@dataclass(frozen=True, slots=True)
class Batch:
    """The records sent to POST /judge. alone: a single record, which is answered by a single verdict."""

    records: tuple[Record, ...]
    alone: bool


def parse(path: str, body: bytes, bound: Bounds) -> Request | Batch:
    """Return what a body asks for. Raises Malformed."""
    _check_size(body, bound)
    try:
        raw = messages.loads(body)
    except ValueError as error:
        raise Malformed(f"the body is not JSON: {error}") from None
    with malformed():
        match path:
            case "/judge":
                return _batch(raw, bound)
            case "/run_code":
                program, invocation, limits, requested = sandboxfusion.parse(_object(raw))
                return RunRequest(program, invocation, bounds.grant(limits, requested, bound.most))
            case "/run":
                run = messages.decode(RunRequest, _object(raw))
                return run.with_limits(bounds.grant(run.limits, _limit_fields(raw, "limits"), bound.most))
        judge = messages.decode(JudgeRequest, _object(raw))
        requested = _limit_fields(raw["suite"], "suite.limits")
        return judge.with_limits(bounds.grant(judge.suite.limits, requested, bound.most))


def parse_and_pack(path: str, body: bytes, bound: Bounds) -> bytes | Batch:
    """Do the same as parse, but pickle each request by itself: there may be many large ones. Raises Malformed."""
    parsed = parse(path, body, bound)
    if isinstance(parsed, Batch):
        return Batch(tuple(map(_packed, parsed.records)), parsed.alone)
    return pickle.dumps(parsed)


def _packed(entry: Record) -> Record:
    return entry if isinstance(entry.request, str) else replace(entry, request=pickle.dumps(entry.request))


def unpack(request: Request | bytes) -> Request:
    """Return a request that came from parse_and_pack or from parse."""
    if isinstance(request, bytes):
        request = pickle.loads(request)
    assert isinstance(request, RunRequest | JudgeRequest)
    return request


def is_small(result: RunResult | Judgement) -> bool:
    """Return whether the result is written in a few milliseconds."""
    if isinstance(result, Judgement):
        return len(result.cases) <= _SMALL_CASES and sum(map(len, result.outputs)) <= SMALL_BYTES
    outputs = (result.stdout, result.stderr, result.returned or b"", *result.files.values())
    return sum(map(len, outputs)) <= SMALL_BYTES


def encode(
    path: str, identity: str | int | None, language: str, limits: Limits, result: RunResult | Judgement
) -> bytes:
    """Return the answer to a request for `path`, in JSON."""
    if path == "/judge":
        assert isinstance(result, Judgement)
        assert identity is not None
        return messages.dumps(record.verdict_line(identity, result))
    if path == "/run_code":
        assert isinstance(result, RunResult)
        return messages.dumps(sandboxfusion.response(Program("", language), limits, result))
    return messages.dumps(result)


def _check_size(body: bytes, bound: Bounds) -> None:
    """Check that a body does not hold too many values or levels, before it is parsed. Raises Malformed.

    Only looks at the characters between strings, so that it is cheap for any body.
    """
    if body.count(b'"') > 4 * bound.values:  # two for a value, and two for its name
        raise _too_many_values(bound)
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    between = b"".join(plain.split(b'"')[::2])
    opening = between.count(b"[") + between.count(b"{")
    if between.count(b",") + opening + 1 > bound.values:
        raise _too_many_values(bound)
    depth = 0
    for bracket in between.translate(None, _BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > bound.depth:
            raise Malformed(f"the body is nested too deeply: at most {bound.depth} levels of arrays and objects")


def _too_many_values(bound: Bounds) -> Malformed:
    return Malformed(f"the body holds more than {bound.values:,} JSON values; send several smaller requests")


def _batch(raw: Any, bound: Bounds) -> Batch:
    records = raw
    if isinstance(raw, dict) and "records" in raw:
        if unknown := [name for name in raw if name != "records"]:
            raise Malformed(
                f"unknown field {unknown[0][:80]!r} beside 'records'; put it into the records, or leave it out"
            )
        records = raw["records"]
    if isinstance(records, dict):
        return Batch((Record(records.get("id"), _request(records, bound)),), alone=True)
    if not isinstance(records, list):
        raise Malformed("the body must be a record, an array of records, or an object with the array `records`")
    if len(records) > bound.records:
        raise Malformed(
            f"a request may hold at most {bound.records:,} records, not {len(records):,}; send several requests"
        )
    return Batch(tuple(_record(entry, bound) for entry in records), alone=False)


def _record(raw: Any, bound: Bounds) -> Record:
    identity = raw.get("id") if isinstance(raw, dict) else None
    identity = identity if isinstance(identity, str | int) else None
    try:
        with malformed():
            return Record(identity, _request(raw, bound))
    except Malformed as error:
        return Record(identity, str(error))


def _request(raw: Any, bound: Bounds) -> Request:
    _, program, suite = record.parse(raw)
    requested = {limit: field for limit, field in record.LIMITS.items() if field in raw}
    return JudgeRequest(program, replace(suite, limits=bounds.grant(suite.limits, requested, bound.most)))


def _object(raw: Any) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise ValueError(f"the body must be a JSON object, not {raw!r}"[:200])
    return raw


def _limit_fields(raw: Any, place: str) -> dict[str, str]:
    """Return the limits that a JSON object sets. place: the field of the request that holds them."""
    return {name: f"{place}.{name}" for name in raw.get("limits", ())}
