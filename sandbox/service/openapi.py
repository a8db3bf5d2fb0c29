"""GET /openapi.json: the service described for machines. Schemas of our types come from the types themselves."""

import copy
import inspect
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from sandbox import messages
from sandbox.cases import Convention
from sandbox.judge import Judgement, Verdict
from sandbox.maxima import bounds_of
from sandbox.messages import JudgeRequest, RunRequest
from sandbox.program import Limits, RunResult
from sandbox.service.sandboxfusion import RunCodeRequest, RunCodeResponse

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}
_TEXT, _NUMBER = {"type": "string"}, {"type": "number"}

_RECORD = {
    "type": "object",
    "required": ["id", "code", "kind", "tests"],
    "properties": {
        "id": {"type": ["string", "integer"]},
        "code": _TEXT,
        "kind": {"enum": ["stdin", "function"]},
        "fn_name": {"type": ["string", "null"], "description": "of kind function: what is called"},
        "tests": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["input", "output"],
                "properties": {"input": _TEXT, "output": _TEXT},
            },
        },
        "time_limit_s": {**_NUMBER, "default": Limits().wall_seconds},
        "memory_limit_mb": {"type": "integer", "default": Limits().memory_mb},
        "language": {**_TEXT, "default": "python"},
        "checker": {**_TEXT, "default": "lcb"},
        "referee": {
            "type": ["object", "null"],
            "required": ["code"],
            "properties": {
                "code": _TEXT,
                "language": {**_TEXT, "default": "python"},
                "convention": {"enum": [convention.value for convention in Convention]},
            },
        },
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
_LOST = {
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
    "properties": {"detail": {**_TEXT, "description": "for people"}, "error": {**_TEXT, "description": "for programs"}},
}
_REFUSALS = {
    "403": "a page of another site in somebody's browser has sent it",
    "401": "the token is missing or wrong",
    "408": "the body arrived too slowly",
    "413": "the body is too large",
    "421": "the header Host names another machine",
    "415": "the body is not declared as JSON",
    "422": "the body is malformed, or what it asks for is",
    "429": "the queue is full; Retry-After says when to come back",
    "503": "the service is stopping, or the sandbox failed: nothing is known about the program",
    "504": "/run_code only: no worker came free in time, or the sandbox failed; ask again",
}


def document(version: str, most: Limits) -> dict[str, Any]:
    """most: what may be asked for."""
    schemas: dict[str, Any] = {
        "Record": copy.deepcopy(_RECORD),
        "Verdict": _VERDICT,
        "Lost": _LOST,
        "Refusal": _REFUSAL,
    }
    one, several = _ref("Verdict"), {"type": "array", "items": {"anyOf": [_ref("Verdict"), _ref("Lost")]}}
    batch = {"type": "array", "items": _ref("Record")}
    records = [_ref("Record"), batch, {"type": "object", "required": ["records"], "properties": {"records": batch}}]
    run_all = {"name": "run_all", "in": "query", "schema": {"type": "boolean", "default": False}}
    judging = _post("Judge records as `curate judge` reads them", {"anyOf": records}, {"anyOf": [one, several]})
    judging["parameters"] = [run_all]
    judging["responses"]["200"]["content"]["application/x-ndjson"] = {"schema": _TEXT}
    runs = {
        "/run_code": ("Run a program, in SandboxFusion's words", RunCodeRequest, RunCodeResponse),
        "/run": ("Run a program", RunRequest, RunResult),
        "/judge_suite": ("Judge a program by a suite", JudgeRequest, Judgement),
    }
    posts = {
        path: _post(words, _schema(asked, schemas), _schema(answered, schemas))
        for path, (words, asked, answered) in runs.items()
    }
    for limit, bound in bounds_of(most).items():
        places = [("Limits", limit)]
        places += {"wall_seconds": [("Record", "time_limit_s"), ("RunCodeRequest", "run_timeout")]}.get(limit, [])
        places += {"memory_mb": [("Record", "memory_limit_mb")]}.get(limit, [])
        for schema, name in places:
            schemas[schema]["properties"][name] |= {"minimum": 0, "maximum": bound}
    gets = {
        "/v1/ping": _get("pong", "application/json", {"const": "pong"}, open_to_all=True),
        "/health": _get("What the service is and how busy", "application/json", {"type": "object"}),
        "/metrics": _get("For Prometheus", "text/plain", _TEXT),
        "/openapi.json": _get("This", "application/json", {"type": "object"}),
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "curate serve", "version": version, "description": "A judge of untrusted programs."},
        "security": [{"token": []}, {}],
        "paths": {
            **{path: {"post": post} for path, post in {"/judge": judging, **posts}.items()},
            **{path: {"get": get} for path, get in gets.items()},
        },
        "components": {"schemas": schemas, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _post(words: str, asked: dict[str, Any], answered: dict[str, Any]) -> dict[str, Any]:
    refused = {"application/json": {"schema": _ref("Refusal")}}
    responses: dict[str, Any] = {"200": {"description": "done", "content": {"application/json": {"schema": answered}}}}
    responses |= {code: {"description": reason, "content": refused} for code, reason in _REFUSALS.items()}
    body = {"required": True, "content": {"application/json": {"schema": asked}}}
    return {"summary": words, "requestBody": body, "responses": responses}


def _get(words: str, media_type: str, schema: dict[str, Any], *, open_to_all: bool = False) -> dict[str, Any]:
    get: dict[str, Any] = {
        "summary": words,
        "responses": {"200": {"description": words, "content": {media_type: {"schema": schema}}}},
    }
    if open_to_all:
        get["security"] = []
    return get


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _schema(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema of what messages.encode makes of a `kind`; those of dataclasses go into `schemas`."""
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
        schemas[name] = {}  # not twice, should it hold one of its own kind
        known = messages.hints(kind)
        schemas[name] = {
            "type": "object",
            "description": inspect.getdoc(kind),
            "required": [
                part.name for part in fields(kind) if part.default is MISSING and part.default_factory is MISSING
            ],
            "properties": {part: _schema(hint, schemas) for part, hint in known.items()},
        }
    return _ref(name)
