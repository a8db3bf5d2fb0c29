"""HumanEval, judged by its own assertions in a place that no answer can reach.

As in OpenAI's harness, the program is the prompt and then the answer, so an answer can use the imports and helpers that
stand before the function in the prompt, and the tests can, too. In that harness, all of these share a process, and an
answer can patch the tests or end them early.
"""

from collections.abc import Iterator

from curate.prompt import Chat, PromptFormat
from curate.reading.dialects import assertions
from curate.reading.tables import Row, TableFiles, validate_options
from curate.reading.values import ParseError
from curate.sources.humaneval import function_preamble
from sandbox import Limits, Suite
from train.evaluation.exercise import Exercise
from train.evaluation.judges.judge import SuiteJudge
from train.evaluation.protocols.protocol import Statement
from train.evaluation.suites.suite import RowSuite, SuiteOptions, unreadable, valid_rows

_COLUMNS = ("task_id", "prompt", "entry_point", "test")
_TASK = "Complete the function below so that it does what its docstring says."
_LIMITS = Limits(wall_seconds=3.0, memory_mb=1024)  # the seconds of OpenAI's harness
_OF_EVALPLUS = "def assertion("  # in the tests of HumanEval+, as the Hub has it


def _recognises(row: Row) -> bool:
    return all(row[name] for name in _COLUMNS) and _OF_EVALPLUS not in str(row["test"])


def _read(table: TableFiles, asked: SuiteOptions) -> Iterator[Exercise]:
    validate_options(table, ())
    for row in valid_rows(table, _COLUMNS, ()):
        id, start, name, test = (str(row[column]) for column in _COLUMNS)
        try:
            tests = assertions.read(test, name, given_code=function_preamble(start, name))
        except ParseError as error:
            raise unreadable(table, id, error) from None
        judge = SuiteJudge(tests.suite(_LIMITS), asked.languages, asked.extraction)
        yield asked.make_exercise(id, Statement(start, "", name), completion_prompt(asked.prompt, start, name), judge)


def completion_prompt(prompt: PromptFormat, start: str, entry_point: str) -> Chat:
    """Return the chat that asks for a function of which the beginning is given."""
    return prompt.chat(_TASK, start, Suite([], entry_point=entry_point))


SUITE = RowSuite("humaneval", "HumanEval", "openai/openai_humaneval", _COLUMNS, _recognises, _read)
