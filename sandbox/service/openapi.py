"""GET /openapi.json: a description of the service for programs. The schemas of our types are derived from the types."""

import copy
import inspect
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from sandbox import json_codec
from sandbox.judge import Judgement, Verdict
from sandbox.limit_bounds import bounds_by_name
from sandbox.program import Limits, RunResult
from sandbox.record_fields import IGNORED
from sandbox.request import JudgeRequest, RunRequest
from sandbox.service.sandboxfusion import RunCodeRequest, RunCodeResponse
from sandbox.suite import RefereeConvention

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}
_TEXT, _NUMBER = {"type": "string"}, {"type": "number"}

_RECORD = {
    "type": "object",
    "additionalProperties": False,
    "required": ["id", "code", "kind", "tests"],
    "properties": {
        "id": {"type": ["string", "integer"]},
        "code": _TEXT,
        "kind": {"enum": ["stdin", "function", "assertions"]},
        "fn_name": {"type": ["string", "null"], "description": "the function to call, for kind function"},
        "names": {
            "type": "array",
            "items": _TEXT,
            "description": "what the submission must define, for kind assertions",
        },
        "classes": {
            "type": "array",
            "items": _TEXT,
            "description": "those of the names that are classes, for kind assertions",
        },
        "given": {**_TEXT, "description": "Python that runs before the submission, for kind assertions"},
        "setup": {**_TEXT, "description": "Python that runs before each test, for kind assertions"},
        "tests": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["input", "output"],
                "properties": {
                    "input": _TEXT,
                    "output": _TEXT,
                    "trial": {**_TEXT, "description": "an output that the referee has accepted"},
                },
            },
        },
        "time_limit_s": {**_NUMBER, "default": Limits().wall_seconds},
        "memory_limit_mb": {"type": "integer", "default": Limits().memory_mb},
        "language": {**_TEXT, "default": "python"},
        "checker": {**_TEXT, "default": "lcb"},
        "referee": {
            "type": ["object", "null"],
            "additionalProperties": False,
            "required": ["code"],
            "properties": {
                "code": _TEXT,
                "language": {**_TEXT, "default": "python"},
                "convention": {"enum": [convention.value for convention in RefereeConvention]},
            },
        },
        **{name: {"description": "ignored"} for name in IGNORED},
    },
}
_MEASURED = {
    "verdict": {"enum": [verdict.value for verdict in Verdict]},
    "cpu_seconds": _NUMBER,
    "wall_seconds": _NUMBER,
    "memory_mb": _NUMBER,
    "score": _NUMBER,
}
_IDENTITY = {"description": "as sent"}
_VERDICT = {
    "type": "object",
    "properties": {
        "id": _IDENTITY,
        "passed": {"type": "boolean"},
        "pass_rate": _NUMBER,
        **_MEASURED,
        "tests": {"type": "array", "items": {"type": "object", "properties": {**_MEASURED, "detail": _TEXT}}},
    },
}
_RECORD_ERROR = {
    "type": "object",
    "required": ["index", "error"],
    "properties": {
        "index": {"type": "integer", "description": "place in the batch, from 0"},
        "id": _IDENTITY,
        "error": _TEXT,
    },
}
_REFUSAL = {
    "type": "object",
    "required": ["detail", "error"],
    "properties": {
        "detail": {**_TEXT, "description": "the reason, for people"},
        "error": {**_TEXT, "description": "the kind of refusal, for programs"},
    },
}
_REFUSALS = {
    "403": "the request was sent by a web page of another site",
    "401": "the token is missing or wrong",
    "408": "the body arrived too slowly",
    "413": "the body is too large",
    "421": "the header Host does not name this service",
    "415": "the body is not declared as JSON",
    "422": "the body is malformed, or asks for something that is not possible",
    "429": "the queue is full; Retry-After says when to come back",
    "503": "the service is stopping, or the sandbox failed: nothing is known about the program",
    "504": "/run_code only: no worker came free in time, or the sandbox failed; try again",
}


def build_document(version: str, max_limits: Limits) -> dict[str, Any]:
    """Return the OpenAPI document. most: upper bounds for the limits of one run."""
    schemas: dict[str, Any] = {
        "Record": copy.deepcopy(_RECORD),
        "Verdict": _VERDICT,
        "Lost": _RECORD_ERROR,
        "Refusal": _REFUSAL,
    }
    one, several = _ref("Verdict"), {"type": "array", "items": {"anyOf": [_ref("Verdict"), _ref("Lost")]}}
    batch = {"type": "array", "items": _ref("Record")}
    several_records = {"type": "object", "required": ["records"], "properties": {"records": batch}}
    records = [_ref("Record"), batch, several_records | {"additionalProperties": False}]
    run_all = {"name": "run_all", "in": "query", "schema": {"type": "boolean", "default": False}}
    judging = _post("Judge records as `curate judge` reads them", {"anyOf": records}, {"anyOf": [one, several]})
    judging["parameters"] = [run_all]
    judging["responses"]["200"]["content"]["application/x-ndjson"] = {"schema": _TEXT}
    runs = {
        "/run_code": ("Run a program, as SandboxFusion does", RunCodeRequest, RunCodeResponse),
        "/run": ("Run a program", RunRequest, RunResult),
        "/judge_suite": ("Judge a program against a suite", JudgeRequest, Judgement),
    }
    posts = {
        path: _post(summary, _schema(request, schemas), _schema(answer, schemas))
        for path, (summary, request, answer) in runs.items()
    }
    for limit, bound in bounds_by_name(max_limits).items():
        places = [("Limits", limit)]
        places += {"wall_seconds": [("Record", "time_limit_s"), ("RunCodeRequest", "run_timeout")]}.get(limit, [])
        places += {"memory_mb": [("Record", "memory_limit_mb")]}.get(limit, [])
        for schema, name in places:
            schemas[schema]["properties"][name] |= {"minimum": 0, "maximum": bound}
    gets = {
        "/v1/ping": _get("pong", "application/json", {"const": "pong"}, open_to_all=True),
        "/health": _get(
            "Status of the service; with the token, also its version, bounds and load",
            "application/json",
            {"type": "object"},
            open_to_all=True,
        ),
        "/metrics": _get("Metrics for Prometheus", "text/plain", _TEXT),
        "/openapi.json": _get("This document", "application/json", {"type": "object"}),
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "curate serve", "version": version, "description": "Runs and judges untrusted programs."},
        "security": [{"token": []}, {}],
        "paths": {
            **{path: {"post": post} for path, post in {"/judge": judging, **posts}.items()},
            **{path: {"get": get} for path, get in gets.items()},
        },
        "components": {"schemas": schemas, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _post(summary: str, request: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    refusal = {"application/json": {"schema": _ref("Refusal")}}
    responses: dict[str, Any] = {"200": {"description": "done", "content": {"application/json": {"schema": answer}}}}
    responses |= {code: {"description": reason, "content": refusal} for code, reason in _REFUSALS.items()}
    body = {"required": True, "content": {"application/json": {"schema": request}}}
    return {"summary": summary, "requestBody": body, "responses": responses}


def _get(summary: str, media_type: str, schema: dict[str, Any], *, open_to_all: bool = False) -> dict[str, Any]:
    get: dict[str, Any] = {
        "summary": summary,
        "responses": {"200": {"description": summary, "content": {media_type: {"schema": schema}}}},
    }
    if open_to_all:
        get["security"] = []
    return get


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _schema(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of the values that messages.encode produces for a type; the schemas of dataclasses are
    added to `schemas`."""
    origin, parts = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _object(kind, schemas)
    if origin is UnionType:
        return {"anyOf": [_schema(part, schemas) for part in parts]}
    if origin is tuple:
        return {"type": "array", "items": _schema(parts[0], schemas)}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _schema(parts[1], schemas)}
    if kind is bytes:
        return {"type": "string", "contentEncoding": "base64"}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [member.value for member in kind]}
    return {"type": _PLAIN[kind]}


def _object(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    name = kind.__name__
    if name not in schemas:
        schemas[name] = {}  # ends the recursion if a type contains itself
        hints = json_codec.field_types(kind)
        schemas[name] = {
            "type": "object",
            "description": inspect.getdoc(kind),
            "required": [
                part.name for part in fields(kind) if part.default is MISSING and part.default_factory is MISSING
            ],
            "properties": {part: _schema(hint, schemas) for part, hint in hints.items()},
        }
    return _ref(name)
