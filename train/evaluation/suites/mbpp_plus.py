"""MBPP+, judged by calls with EvalPlus's rules: an answer must pass the base inputs and the plus inputs.

The program is the answer alone; MBPP's prompts have no code. As in EvalPlus, the model sees the task and its first
assertion, which tells the name of the function.
"""

from collections.abc import Iterator
from functools import partial

from curate.reading.tables import Row, TableFiles, validate_options
from curate.reading.values import ParseError, parse_text_list
from sandbox import Suite
from train.evaluation.exercise import Exercise
from train.evaluation.protocols.protocol import Statement
from train.evaluation.suites.evalplus import (
    TaskTests,
    is_evalplus_form,
    is_hub_form,
    make_judge,
    mbpp_docstring,
    parse_evalplus_tests,
    parse_hub_tests,
)
from train.evaluation.suites.mbpp_inputs import restore_types
from train.evaluation.suites.suite import RowSuite, SuiteOptions, unreadable, valid_rows

_OWN = ("entry_point", "canonical_solution", "base_input", "plus_input", "atol")
_HUB = ("code", "test_list", "test")
_PREFIX = "Mbpp/"


def _recognises(row: Row) -> bool:
    return is_evalplus_form(row, _PREFIX) or bool(row["code"] and row["test_list"] and is_hub_form(row))


def _read(table: TableFiles, asked: SuiteOptions) -> Iterator[Exercise]:
    validate_options(table, ())
    for row in valid_rows(table, ("task_id", "prompt"), (*_OWN, *_HUB)):
        number = str(row["task_id"]).removeprefix(_PREFIX)
        try:
            statement, program, name, tests = (_own if is_evalplus_form(row, _PREFIX) else _hub)(row, number)
        except ParseError as error:
            raise unreadable(table, f"{_PREFIX}{number}", error) from None
        chat = asked.prompt.chat(statement, "", Suite([], entry_point=name))
        by_calls = make_judge(program, name, tests, extraction=asked.extraction)
        yield asked.make_exercise(f"{_PREFIX}{number}", Statement(mbpp_docstring(statement), "", name), chat, by_calls)


def _own(row: Row, number: str) -> tuple[str, str, str, TaskTests]:
    """Return the statement, the reference, the name of its function and the tests of a row of EvalPlus's own file."""
    if not number.isdecimal():
        raise ParseError("its task_id has no number")
    tests = parse_evalplus_tests(row, partial(restore_types, int(number)))
    statement = str(row["prompt"]).strip().strip('"').strip()
    return statement, str(row["canonical_solution"]), str(row["entry_point"]), tests


def _hub(row: Row, number: str) -> tuple[str, str, str, TaskTests]:
    """Do the same for a row of the Hub's form."""
    tests, name = parse_hub_tests(str(row["test"]))
    first = parse_text_list(row["test_list"], "test_list")[:1]
    return "\n".join([str(row["prompt"]).strip(), *first]), str(row["code"]), name, tests


SUITE = RowSuite("mbpp+", "MBPP+", "evalplus/mbppplus", ("task_id", "prompt", *_OWN, *_HUB), _recognises, _read)
