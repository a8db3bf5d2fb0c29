"""From JSON to requests for the Sandbox, and from its results to JSON.

These are plain functions, because small bodies are translated in the service's own process and large ones in another
(json_processes.py). A request is a RunRequest or a JudgeRequest, or a pickle of one, which is unpacked when its turn
has come.
"""

import pickle
from dataclasses import dataclass, replace
from typing import Any

from sandbox import json_codec
from sandbox.judge import Judgement
from sandbox.judge_record import JudgeVerdict, Record
from sandbox.program import Limits, Program, RunResult
from sandbox.request import JudgeRequest, RunRequest
from sandbox.service import request_bounds, sandboxfusion
from sandbox.service.request_bounds import RequestBounds
from sandbox.service.service_errors import MalformedRequest, translate_parse_errors

Request = RunRequest | JudgeRequest

SMALL_BYTES = 64 * 1024  # this many are parsed or written in a few milliseconds
_SMALL_CASES = 200
_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """One record of a batch: its request, or a message that says what is wrong with it."""

    record_id: str | int | None
    request: Request | bytes | str


@dataclass(frozen=True, slots=True)
class JudgeBatch:
    """The records sent to POST /judge. is_single: a single record, which is answered by a single verdict."""

    records: tuple[BatchRecord, ...]
    is_single: bool


def parse(path: str, body: bytes, bound: RequestBounds) -> Request | JudgeBatch:
    """Return what a body asks for. Raises MalformedRequest."""
    _check_size(body, bound)
    try:
        raw = json_codec.loads(body)
    except ValueError as error:
        raise MalformedRequest(f"the body is not JSON: {error}") from None
    with translate_parse_errors():
        match path:
            case "/judge":
                return _batch(raw, bound)
            case "/run_code":
                program, invocation, limits, requested = sandboxfusion.parse(_object(raw))
                return RunRequest(program, invocation, request_bounds.clamp_limits(limits, requested, bound.max_limits))
            case "/run":
                run = json_codec.decode(RunRequest, _object(raw))
                return run.with_limits(
                    request_bounds.clamp_limits(run.limits, _limit_fields(raw, "limits"), bound.max_limits)
                )
        judge = json_codec.decode(JudgeRequest, _object(raw))
        requested = _limit_fields(raw["suite"], "suite.limits")
        return judge.with_limits(request_bounds.clamp_limits(judge.suite.limits, requested, bound.max_limits))


def parse_and_pack(path: str, body: bytes, bound: RequestBounds) -> bytes | JudgeBatch:
    """Do the same as parse, but pickle each request by itself: there may be many large ones. Raises
    MalformedRequest."""
    parsed = parse(path, body, bound)
    if isinstance(parsed, JudgeBatch):
        return JudgeBatch(tuple(map(_packed, parsed.records)), parsed.is_single)
    return pickle.dumps(parsed)


def _packed(entry: BatchRecord) -> BatchRecord:
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
        return json_codec.dumps(JudgeVerdict.from_judgement(identity, result))
    if path == "/run_code":
        assert isinstance(result, RunResult)
        return json_codec.dumps(sandboxfusion.make_response(Program("", language), limits, result))
    return json_codec.dumps(result)


def _check_size(body: bytes, bound: RequestBounds) -> None:
    """Check that a body does not hold too many values or levels, before it is parsed. Raises MalformedRequest.

    Only looks at the characters between strings, so that it is cheap for any body.
    """
    if body.count(b'"') > 4 * bound.max_values:  # two for a value, and two for its name
        raise _too_many_values(bound)
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    between = b"".join(plain.split(b'"')[::2])
    opening = between.count(b"[") + between.count(b"{")
    if between.count(b",") + opening + 1 > bound.max_values:
        raise _too_many_values(bound)
    depth = 0
    for bracket in between.translate(None, _BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > bound.max_depth:
            raise MalformedRequest(
                f"the body is nested too deeply: at most {bound.max_depth} levels of arrays and objects"
            )


def _too_many_values(bound: RequestBounds) -> MalformedRequest:
    return MalformedRequest(f"the body holds more than {bound.max_values:,} JSON values; send several smaller requests")


def _batch(raw: Any, bound: RequestBounds) -> JudgeBatch:
    records = raw
    if isinstance(raw, dict) and "records" in raw:
        if unknown := [name for name in raw if name != "records"]:
            raise MalformedRequest(
                f"unknown field {unknown[0][:80]!r} beside 'records'; put it into the records, or leave it out"
            )
        records = raw["records"]
    if isinstance(records, dict):
        return JudgeBatch((BatchRecord(records.get("id"), _request(records, bound)),), is_single=True)
    if not isinstance(records, list):
        raise MalformedRequest("the body must be a record, an array of records, or an object with the array `records`")
    if len(records) > bound.max_records:
        raise MalformedRequest(
            f"a request may hold at most {bound.max_records:,} records, not {len(records):,}; send several requests"
        )
    return JudgeBatch(tuple(_record(entry, bound) for entry in records), is_single=False)


def _record(raw: Any, bound: RequestBounds) -> BatchRecord:
    identity = raw.get("id") if isinstance(raw, dict) else None
    identity = identity if isinstance(identity, str | int) else None
    try:
        with translate_parse_errors():
            return BatchRecord(identity, _request(raw, bound))
    except MalformedRequest as error:
        return BatchRecord(identity, str(error))


def _request(raw: Any, bound: RequestBounds) -> Request:
    record = json_codec.decode(Record, raw)
    limits = request_bounds.clamp_limits(record.limits, record.limit_fields, bound.max_limits)
    return JudgeRequest(record.program, record.to_suite(limits))


def _object(raw: Any) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise ValueError(f"the body must be a JSON object, not {raw!r}"[:200])
    return raw


def _limit_fields(raw: Any, place: str) -> dict[str, str]:
    """Return the limits that a JSON object sets. place: the field of the request that holds them."""
    return {name: f"{place}.{name}" for name in raw.get("limits", ())}
