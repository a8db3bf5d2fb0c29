"""PrimeIntellect/SYNTHETIC-1: one row per RESPONSE of a model, so the first row of each problem_id counts.

Tests and metadata are Python literals inside text, or JSON. Tasks that are not code are rejected as such.
"""

import re
from collections.abc import Iterator
from typing import Any

from curate.limits import limits
from curate.parsing import Unparsable, distinct, json_text, lines, optional_text, python_value, short
from curate.problem import Problem, Rejection
from curate.signature import misfit
from curate.solutions import unfence
from curate.tables import Table, Unreadable, read_rows
from sandbox import Case, Suite

TITLE = "SYNTHETIC-1"
HUB_ID = "PrimeIntellect/SYNTHETIC-1"
LICENCE = "apache-2.0"
COLUMNS = ("problem_id", "task_type", "prompt", "gold_standard_solution", "verification_info")
OPTIONAL = ("source", "in_source_id", "metadata")

_PROMPT_HEAD = re.compile(r"\A\s*Solve the following coding problem using the programming language \w+:\s*")
_PROMPT_TAIL = re.compile(
    r"\s*(?:The input will be (?:given via )?stdin and [^\n]* to stdout[^\n]*\s*)?"
    r"Now solve the problem and return the code\.\s*\Z"
)
_SIGNATURE = re.compile(r"\s*The function to implement:\s*\n(.*)\Z", re.DOTALL)


def read(table: Table) -> Iterator[Problem | Rejection]:
    """Problems in the order in which their first response occurs."""
    seen: set[str] = set()
    for position, row in enumerate(read_rows(table, COLUMNS, OPTIONAL)):
        if isinstance(row, Unreadable):
            yield Rejection(f"synthetic1/{row.place}", "synthetic1", "parse", "unparsable", row.detail)
            continue
        id = f"synthetic1/{optional_text(row['problem_id']) or f'row-{position}'}"
        if id in seen:
            continue
        seen.add(id)
        task = optional_text(row["task_type"])
        if task != "verifiable_code":
            yield Rejection(id, "synthetic1", "parse", "not_code", f"task_type {task}")
            continue
        try:
            yield _problem(id, row)
        except Unparsable as error:
            yield Rejection(id, "synthetic1", "parse", "unparsable", str(error))


def _problem(id: str, row: dict[str, Any]) -> Problem:
    statement, starter_code = _without_template(optional_text(row["prompt"]))
    info = row["verification_info"]
    content = info if isinstance(info, dict) else python_value(info, "verification_info")
    if not isinstance(content, dict) or not isinstance(content.get("test_cases"), list):
        raise Unparsable("verification_info has no test_cases")
    cases, entry_point = _tests(content["test_cases"], starter_code)
    metadata = _metadata(row["metadata"])
    gold = row["gold_standard_solution"]
    return Problem(
        id=id,
        source="synthetic1",
        statement=statement,
        starter_code=starter_code,
        tests=Suite(
            distinct(cases),
            entry_point=entry_point,
            checker="exact" if entry_point else "lcb",
            limits=limits(metadata.get("time_limit"), metadata.get("memory_limit")),
        ),
        n_tests_read=len(cases),
        solutions=(unfence(gold),) if isinstance(gold, str) and gold.strip() else (),
        language=optional_text(content.get("language")),
        platform=optional_text(row["source"]),
        title=optional_text(row["in_source_id"]),
        url=optional_text(metadata.get("problem_url")),
        difficulty=optional_text(metadata.get("difficulty")),
        licence=LICENCE,
    )


def _without_template(prompt: str) -> tuple[str, str]:
    """The statement and the starter code inside the prompt that all problems share."""
    statement = _PROMPT_TAIL.sub("", _PROMPT_HEAD.sub("", prompt))
    signature = _SIGNATURE.search(statement)
    if signature is None:
        return statement, ""
    return statement[: signature.start()], signature[1].rstrip()


def _tests(encoded: list[Any], starter_code: str) -> tuple[list[Case], str | None]:
    if not all(isinstance(test, dict) and {"type", "input", "output"} <= test.keys() for test in encoded):
        raise Unparsable("a test has no type, input and output")
    kinds = {(str(test["type"]), optional_text(test.get("fn_name"))) for test in encoded}
    if len(kinds) > 1:
        raise Unparsable("tests of several kinds or for several functions: some belong to another problem")
    kind, entry_point = kinds.pop() if kinds else ("stdin_stdout", "")
    if kind == "stdin_stdout":
        return [Case(lines(test["input"], "an input"), lines(test["output"], "an output")) for test in encoded], None
    if kind != "function_call" or not entry_point.isidentifier():
        raise Unparsable(f"tests of type {short(kind)} for a function {short(entry_point)}")
    cases = []
    for test in encoded:
        if not isinstance(test["input"], list | tuple):
            raise Unparsable("the input of a call is not a list of arguments")
        if wrong := misfit(starter_code, entry_point, list(test["input"])):
            raise Unparsable(f"a test of another problem: {wrong}")
        cases.append(Case(json_text(test["input"], "an input"), json_text(test["output"], "an output")))
    return cases, entry_point


def _metadata(encoded: object) -> dict[str, Any]:
    try:
        metadata = encoded if isinstance(encoded, dict) else python_value(encoded, "metadata")
    except Unparsable:
        return {}  # limits and links have defaults: no reason to lose a problem
    return metadata if isinstance(metadata, dict) else {}
