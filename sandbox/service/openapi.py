"""GET /openapi.json: the OpenAPI document of the service, with schemas derived from the types."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from sandbox import json_codec
from sandbox.judge import Judgement
from sandbox.judge_record import Identity, JudgeVerdict, Record
from sandbox.limit_bounds import list_bounds
from sandbox.program import Limits, RunResult
from sandbox.request import JudgeRequest, RunRequest
from sandbox.service.sandboxfusion import RunCodeRequest, RunCodeResponse

_TEXT = {"type": "string"}
_TYPES = (JudgeRequest, Judgement, JudgeVerdict, Record, RunCodeRequest, RunCodeResponse, RunRequest, RunResult)
# Limit -> (schema, property) of the request fields that set it.
_LIMIT_FIELDS = {
    "wall_seconds": [("Record", "time_limit_s"), ("RunCodeRequest", "run_timeout")],
    "memory_mb": [("Record", "memory_limit_mb")],
}


class RecordFailure(Struct, frozen=True):
    """The response to a record of a batch that has no verdict: it was malformed, or the sandbox failed."""

    index: Annotated[int, Meta(description="index in the batch, from 0")]
    error: str
    id: Identity = None


class Refusal(Struct, frozen=True):
    """An error response."""

    detail: Annotated[str, Meta(description="the reason, for people")]
    error: Annotated[str, Meta(description="the kind of error, for programs")]


_ERROR_RESPONSES = {
    "403": "a web page of another site sent the request",
    "401": "the token is missing or wrong",
    "408": "the body arrived too slowly",
    "413": "the body is too large",
    "421": "the header Host does not name this service",
    "415": "the header content-type is not application/json",
    "422": "the body is malformed, or has an invalid value",
    "429": "the queue is full; retry after the seconds in Retry-After",
    "503": "the service is stopping, or the sandbox failed, so the program has no result",
    "504": "/run_code only: no worker was free in time, or the sandbox failed; try again",
}


def build_document(version: str, max_limits: Limits) -> dict[str, Any]:
    """Return the OpenAPI document. max_limits: upper bounds for the limits of one run."""
    schemas = json_codec.make_schemas([*_TYPES, RecordFailure, Refusal], "#/components/schemas/{name}")
    for limit, bound in list_bounds(max_limits).items():
        for schema, name in [("Limits", limit), *_LIMIT_FIELDS.get(limit, [])]:
            schemas[schema]["properties"][name] |= {"minimum": 0, "maximum": bound}
    one = _make_ref("JudgeVerdict")
    several = {"type": "array", "items": {"anyOf": [one, _make_ref("RecordFailure")]}}
    batch = {"type": "array", "items": _make_ref("Record")}
    several_records = {"type": "object", "required": ["records"], "properties": {"records": batch}}
    records = [_make_ref("Record"), batch, several_records | {"additionalProperties": False}]
    run_all = {"name": "run_all", "in": "query", "schema": {"type": "boolean", "default": False}}
    judging = _describe_post(
        "Judge records as `curate judge` reads them", {"anyOf": records}, {"anyOf": [one, several]}
    )
    judging["parameters"] = [run_all]
    judging["responses"]["200"]["content"]["application/x-ndjson"] = {"schema": _TEXT}
    posts = {
        "/judge": judging,
        "/run_code": _describe_post(
            "Run a program, as SandboxFusion does", _make_ref("RunCodeRequest"), _make_ref("RunCodeResponse")
        ),
        "/run": _describe_post("Run a program", _make_ref("RunRequest"), _make_ref("RunResult")),
        "/judge_suite": _describe_post(
            "Judge a program against a suite", _make_ref("JudgeRequest"), _make_ref("Judgement")
        ),
    }
    gets = {
        "/v1/ping": _describe_get("pong", "application/json", {"const": "pong"}, open_to_all=True),
        "/health": _describe_get(
            "Status of the service; with the token, also its version, bounds and load",
            "application/json",
            {"type": "object"},
            open_to_all=True,
        ),
        "/metrics": _describe_get("Metrics for Prometheus", "text/plain", _TEXT),
        "/openapi.json": _describe_get("This document", "application/json", {"type": "object"}),
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "curate serve", "version": version, "description": "Runs and judges untrusted programs."},
        "security": [{"token": []}, {}],
        "paths": {
            **{path: {"post": post} for path, post in posts.items()},
            **{path: {"get": get} for path, get in gets.items()},
        },
        "components": {"schemas": schemas, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _describe_post(summary: str, request: dict[str, Any], response: dict[str, Any]) -> dict[str, Any]:
    refusal = {"application/json": {"schema": _make_ref("Refusal")}}
    responses: dict[str, Any] = {"200": {"description": "done", "content": {"application/json": {"schema": response}}}}
    responses |= {code: {"description": reason, "content": refusal} for code, reason in _ERROR_RESPONSES.items()}
    body = {"required": True, "content": {"application/json": {"schema": request}}}
    return {"summary": summary, "requestBody": body, "responses": responses}


def _describe_get(
    summary: str, media_type: str, schema: dict[str, Any], *, open_to_all: bool = False
) -> dict[str, Any]:
    get: dict[str, Any] = {
        "summary": summary,
        "responses": {"200": {"description": summary, "content": {media_type: {"schema": schema}}}},
    }
    if open_to_all:
        get["security"] = []
    return get


def _make_ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}
