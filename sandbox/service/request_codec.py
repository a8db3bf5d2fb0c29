"""Decoder of requests for the Sandbox (RunRequest, JudgeRequest) from JSON, and encoder of results."""

from dataclasses import dataclass
from typing import Any

from sandbox import json_codec
from sandbox.judge import Judgement
from sandbox.judge_record import JudgeVerdict, Record
from sandbox.program import RunResult
from sandbox.request import JudgeRequest, RunRequest
from sandbox.service import sandboxfusion
from sandbox.service.request_bounds import RequestBounds
from sandbox.service.service_errors import MalformedRequest, translate_parse_errors

Request = RunRequest | JudgeRequest

_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """A record of a batch. request: the request or, if the record is malformed, the error message."""

    record_id: str | int | None
    request: JudgeRequest | str


@dataclass(frozen=True, slots=True)
class JudgeBatch:
    """The records of a POST /judge. is_single: whether the body is a single record."""

    records: tuple[BatchRecord, ...]
    is_single: bool


def parse(path: str, body: bytes, bounds: RequestBounds) -> Request | JudgeBatch:
    """Parse a body. Raises MalformedRequest."""
    _check_size(body, bounds)
    try:
        raw = json_codec.loads(body)
    except ValueError as error:
        raise MalformedRequest(f"the body is not JSON: {error}") from None
    with translate_parse_errors():
        match path:
            case "/judge":
                return _parse_batch(raw, bounds)
            case "/run_code":
                program, invocation, limits, requested = sandboxfusion.parse(_require_object(raw))
                return RunRequest(program, invocation, bounds.clamp_limits(limits, requested))
            case "/run":
                run = json_codec.decode(RunRequest, _require_object(raw))
                return run.with_limits(bounds.clamp_limits(run.limits, _list_limit_fields(raw, "limits")))
        judge = json_codec.decode(JudgeRequest, _require_object(raw))
        requested = _list_limit_fields(raw["suite"], "suite.limits")
        return judge.with_limits(bounds.clamp_limits(judge.suite.limits, requested))


def encode(path: str, record_id: str | int | None, request: Request, result: RunResult | Judgement) -> bytes:
    """Encode the response to a request for `path` as JSON."""
    if path == "/judge":
        assert isinstance(result, Judgement)
        assert record_id is not None
        return json_codec.dumps(JudgeVerdict.from_judgement(record_id, result))
    if path == "/run_code":
        assert isinstance(result, RunResult)
        return json_codec.dumps(sandboxfusion.make_response(request.program, request.run_limits, result))
    return json_codec.dumps(result)


def _check_size(body: bytes, bounds: RequestBounds) -> None:
    """Check the number of values and levels of a body before parsing it. Raises MalformedRequest."""
    too_many = MalformedRequest(
        f"the body has more than {bounds.max_values:,} JSON values; send several smaller requests"
    )
    if body.count(b'"') > 4 * bounds.max_values:  # two quotes per value, and two per name
        raise too_many
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    between = b"".join(plain.split(b'"')[::2])  # the characters outside strings
    opening = between.count(b"[") + between.count(b"{")
    if between.count(b",") + opening + 1 > bounds.max_values:
        raise too_many
    depth = 0
    for bracket in between.translate(None, _NOT_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > bounds.max_depth:
            raise MalformedRequest(
                f"the body is nested too deeply: it may have at most {bounds.max_depth} levels of arrays and objects"
            )


def _parse_batch(raw: Any, bounds: RequestBounds) -> JudgeBatch:
    records = raw
    if isinstance(raw, dict) and "records" in raw:
        if unknown := [name for name in raw if name != "records"]:
            raise MalformedRequest(
                f"unknown field {unknown[0][:80]!r} next to 'records'; move it into the records, or remove it"
            )
        records = raw["records"]
    if isinstance(records, dict):
        return JudgeBatch((BatchRecord(records.get("id"), _make_request(records, bounds)),), is_single=True)
    if not isinstance(records, list):
        raise MalformedRequest("the body must be a record, an array of records, or an object with the array `records`")
    if len(records) > bounds.max_records:
        raise MalformedRequest(
            f"a request may hold at most {bounds.max_records:,} records, not {len(records):,}; send several requests"
        )
    return JudgeBatch(tuple(_parse_record(entry, bounds) for entry in records), is_single=False)


def _parse_record(raw: Any, bounds: RequestBounds) -> BatchRecord:
    identity = raw.get("id") if isinstance(raw, dict) else None
    identity = identity if isinstance(identity, str | int) else None
    try:
        with translate_parse_errors():
            return BatchRecord(identity, _make_request(raw, bounds))
    except MalformedRequest as error:
        return BatchRecord(identity, str(error))


def _make_request(raw: Any, bounds: RequestBounds) -> JudgeRequest:
    record = json_codec.decode(Record, raw)
    limits = bounds.clamp_limits(record.limits, record.limit_fields)
    return JudgeRequest(record.program, record.to_suite(limits))


def _require_object(raw: Any) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise ValueError(f"the body must be a JSON object, not {raw!r}"[:200])
    return raw


def _list_limit_fields(raw: Any, field: str) -> dict[str, str]:
    """Return the limits that a JSON object sets: limit -> path in the request. field: path of the object `limits`."""
    return {name: f"{field}.{name}" for name in raw.get("limits", ())}
