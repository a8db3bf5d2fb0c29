"""The JSON record of one submission and its tests, as `curate judge` and `curate serve` read it, and of its verdict."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sandbox import json_codec
from sandbox.box import Sandbox
from sandbox.errors import SandboxError
from sandbox.judge import Judgement
from sandbox.program import BadLimit, Limits, Program
from sandbox.record_fields import check_fields
from sandbox.suite import PYTHON, Assertions, Case, Referee, RefereeConvention, Suite

LIMIT_FIELDS = {"wall_seconds": "time_limit_s", "memory_mb": "memory_limit_mb"}  # limit -> the field that sets it

_TYPE_NAMES = {str: "string", list: "list"}
_REQUIRED = {"code": str, "kind": str, "tests": list}


def judge_lines(box: Sandbox, lines: Iterable[tuple[int, str]], *, run_all: bool) -> Iterator[dict[str, Any]]:
    """Yield one answer for each (number, text) of a JSON Lines file, in order.

    If a line is not a record, or the sandbox fails to judge it, its answer has `error` and the line number in place of
    a verdict: nothing is known about its program.
    """
    ready: dict[int, dict[str, Any]] = {}  # place among the lines -> answer
    submitted: dict[int, tuple[int, int, str | int]] = {}  # index among the pairs -> place, line number, id
    next_place = 0

    def pairs() -> Iterator[tuple[Program, Suite]]:
        index = 0
        for place, (number, text) in enumerate(lines):
            identity = None
            try:
                record = json.loads(text)
                identity = record.get("id") if isinstance(record, dict) else None
                identity, program, suite = parse(record)
            except (ValueError, TypeError, RecursionError) as error:
                ready[place] = {"line": number, "id": identity, "error": f"malformed record: {error}"}
                continue
            submitted[index] = place, number, identity
            index += 1
            yield program, suite

    for index, answer in box.judge_many_with_errors(pairs(), run_all=run_all):
        place, number, identity = submitted.pop(index)
        if isinstance(answer, Judgement):
            ready[place] = verdict_line(identity, answer)
        else:
            cause = "sandbox" if isinstance(answer, SandboxError) else "malformed record"
            ready[place] = {"line": number, "id": identity, "error": f"{cause}: {answer}"}
        while next_place in ready:
            yield ready.pop(next_place)
            next_place += 1
    yield from (ready[place] for place in sorted(ready))


def parse(record: Any) -> tuple[str | int, Program, Suite]:
    """Return the id, the program and the suite of a record. Raises ValueError, saying which field is wrong and how."""
    if not isinstance(record, dict):
        raise ValueError(f"a record must be a JSON object, not {type(record).__name__}")
    check_fields(record)
    identity = record.get("id")
    if not isinstance(identity, str | int) or isinstance(identity, bool):
        raise ValueError(f"field 'id' must be a string or a number, not {identity!r}"[:200])
    for name, kind in _REQUIRED.items():
        if not isinstance(record.get(name), kind):
            raise ValueError(f"field {name!r} must be a {_TYPE_NAMES[kind]}, not {record.get(name)!r}"[:200])
    return identity, _program(record), parse_suite(record)


def _program(record: Mapping[str, Any], of: str = "") -> Program:
    return Program(record["code"], _text(record, "language", "python", of=of))


def _text(record: Mapping[str, Any], name: str, default: str, *, of: str = "") -> str:
    text = record.get(name, default)
    if not isinstance(text, str):
        raise ValueError(f"field {name!r}{of} must be a string, not {text!r}"[:200])
    return text


def parse_suite(record: Mapping[str, Any], checker: str = "lcb") -> Suite:
    """Return the suite of a record; `checker` applies to records that name none. Raises ValueError."""
    if record["kind"] not in ("stdin", "function", "assertions"):
        raise ValueError(f"field 'kind' must be stdin, function or assertions, not {record['kind']!r}"[:200])
    assertions = _assertions(record) if record["kind"] == "assertions" else None
    entry_point = record.get("fn_name") if record["kind"] == "function" else None
    if record["kind"] == "function" and not isinstance(entry_point, str):
        raise ValueError("a record of kind function needs field 'fn_name', a string")
    tests = record["tests"]
    for number, test in enumerate(tests):
        if not isinstance(test, dict) or not all(
            isinstance(text, str) for text in (test.get("input"), test.get("output"), test.get("trial", ""))
        ):
            words = f"field 'tests[{number}]' must be an object with strings input, output and perhaps trial"
            raise ValueError(f"{words}, not {test!r}"[:200])
    referee = record.get("referee")
    if not tests:
        raise ValueError("field 'tests' must hold at least one test")
    return Suite(
        [Case(test["input"], test["output"], test.get("trial", "")) for test in tests],
        entry_point=entry_point,
        checker=_text(record, "checker", checker if assertions is None else PYTHON),
        limits=_limits(record),
        referee=None if referee is None else _referee(referee),
        assertions=assertions,
    )


def _limits(record: Mapping[str, Any]) -> Limits:
    kinds = json_codec.field_types(Limits)
    given = {limit: field for limit, field in LIMIT_FIELDS.items() if field in record}
    try:
        return Limits(
            **{limit: json_codec.decode(kinds[limit], record[field], field) for limit, field in given.items()}
        )
    except BadLimit as error:
        raise error.with_field_names(LIMIT_FIELDS) from None


def _assertions(record: Mapping[str, Any]) -> Assertions:
    names = record.get("names")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ValueError("a record of kind assertions needs field 'names', a list of what the submission must define")
    given, setup = record.get("given", ""), record.get("setup", "")
    if not isinstance(given, str) or not isinstance(setup, str):
        raise ValueError("fields 'given' and 'setup' must be strings of Python code")
    classes = record.get("classes", [])
    if not isinstance(classes, list) or not all(name in names for name in classes):
        raise ValueError("field 'classes' must be a list of those of the names that are classes")
    return Assertions(tuple(names), given, setup, tuple(classes))


def _referee(raw: Any) -> Referee:
    if not isinstance(raw, dict) or not isinstance(raw.get("code"), str):
        raise ValueError(f"field 'referee' must be an object with the string 'code', not {raw!r}"[:200])
    conventions = [convention.value for convention in RefereeConvention]
    convention = raw.get("convention", RefereeConvention.TESTLIB.value)
    if convention not in conventions:
        raise ValueError(f"field 'convention' of a referee must be one of {', '.join(conventions)}, not {convention!r}")
    return Referee(_program(raw, " of a referee"), RefereeConvention(convention))


def verdict_line(record_id: str | int, judgement: Judgement) -> dict[str, Any]:
    """Return what `curate judge` writes about one submission."""
    return {
        "id": record_id,
        "verdict": judgement.verdict.value,
        "passed": judgement.accepted,
        "pass_rate": judgement.pass_rate,
        "score": judgement.score,
        "cpu_seconds": round(sum(case.cpu_seconds for case in judgement.cases), 6),
        "wall_seconds": round(sum(case.wall_seconds for case in judgement.cases), 6),
        "memory_mb": round(max(case.memory_mb for case in judgement.cases), 3),
        "tests": [
            {
                "verdict": case.verdict.value,
                "cpu_seconds": round(case.cpu_seconds, 6),
                "wall_seconds": round(case.wall_seconds, 6),
                "memory_mb": round(case.memory_mb, 3),
                "score": case.score,
                "detail": case.detail,
            }
            for case in judgement.cases
        ],
    }
