"""HumanEval+, judged by calls with EvalPlus's rules: an answer must pass the base inputs and the plus inputs.

As in EvalPlus, the program is the answer alone, so an answer has to import what it uses. With `?imports=prompt`, what
stands before the function in the prompt, imports and helpers, runs before the answer, as in OpenAI's harness.
"""

from collections.abc import Iterator

from curate.reading.tables import Row, TableFiles
from curate.reading.values import ParseError
from curate.sources.humaneval import function_preamble
from train.evaluation.exercise import Exercise
from train.evaluation.protocols.protocol import Statement
from train.evaluation.suites.evalplus import (
    is_evalplus_form,
    is_hub_form,
    make_judge,
    parse_evalplus_tests,
    parse_hub_tests,
    uses_prompt_imports,
)
from train.evaluation.suites.humaneval import completion_prompt
from train.evaluation.suites.suite import RowSuite, SuiteOptions, unreadable, valid_rows

_COLUMNS = ("task_id", "prompt", "entry_point", "canonical_solution")
_TESTS = ("test", "base_input", "plus_input", "atol")
_PREFIX = "HumanEval/"


def _recognises(row: Row) -> bool:
    return all(row[name] for name in _COLUMNS) and (is_evalplus_form(row, _PREFIX) or is_hub_form(row))


def _read(table: TableFiles, asked: SuiteOptions) -> Iterator[Exercise]:
    with_prompt = uses_prompt_imports(table)
    for row in valid_rows(table, _COLUMNS, _TESTS):
        id, start, name, solution = (str(row[column]) for column in _COLUMNS)
        try:
            tests = (
                parse_evalplus_tests(row) if is_evalplus_form(row, _PREFIX) else parse_hub_tests(str(row["test"]))[0]
            )
            given = function_preamble(start, name) if with_prompt else ""
        except ParseError as error:
            raise unreadable(table, id, error) from None
        by_calls = make_judge(start + solution, name, tests, given, extraction=asked.extraction)
        yield asked.make_exercise(
            id, Statement(start, "", name), completion_prompt(asked.prompt, start, name), by_calls
        )


SUITE = RowSuite("humaneval+", "HumanEval+", "evalplus/humanevalplus", (*_COLUMNS, *_TESTS), _recognises, _read)
