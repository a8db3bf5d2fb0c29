"""CRUXEval: 800 short functions, each with an input and its output. A model predicts the output, or finds an input.

Both are asked with CRUXEval's own prompts: the direct ones or, with `?prompt=steps`, those that ask for steps first.
"""

from collections.abc import Iterator
from functools import partial

from curate.errors import CurateError
from curate.prompt import Chat, PromptFormat
from curate.reading.tables import Row, TableFiles, validate_options
from curate.reading.values import optional_text
from sandbox import Suite
from train.evaluation.exercise import Exercise
from train.evaluation.judges.cruxeval_judges import InputJudge, OutputJudge
from train.evaluation.protocols.forms import SYSTEM, input_prompt, output_prompt
from train.evaluation.protocols.protocol import Statement
from train.evaluation.suites.suite import RowSuite, SuiteOptions, valid_rows

_COLUMNS = ("id", "code", "input", "output")
_PROMPT = "prompt"  # an option
_DIRECT, _STEPS = "direct", "steps"


def _recognises(row: Row) -> bool:
    """A row without its input is one, too: some functions take no arguments."""
    return (
        bool(row["id"] and row["code"] and row["output"]) and row["input"] is not None and "def f(" in str(row["code"])
    )


def _read(inputs: bool, table: TableFiles, asked: SuiteOptions) -> Iterator[Exercise]:
    stepwise = _is_stepwise(table)
    for row in valid_rows(table, _COLUMNS, ()):
        id, code, input, output = (optional_text(row[column]) for column in _COLUMNS)
        judge = InputJudge(code, output, stepwise) if inputs else OutputJudge(output, stepwise)
        text = (
            input_prompt(code, output, stepwise=stepwise) if inputs else output_prompt(code, input, stepwise=stepwise)
        )
        yield asked.make_exercise(f"cruxeval/{id}", Statement(text), _chat(asked.prompt, text), judge)


def _is_stepwise(table: TableFiles) -> bool:
    value = validate_options(table, (_PROMPT,)).get(_PROMPT, _DIRECT)
    if value not in (_DIRECT, _STEPS):
        raise CurateError(f"{table.location}: {_PROMPT} must be {_DIRECT} or {_STEPS}, not {value!r}")
    return bool(value == _STEPS)


def _chat(prompt: PromptFormat, text: str) -> Chat:
    """Return the chat with CRUXEval's prompt. A template of the user's own is used as it is."""
    if prompt.template:
        return prompt.chat(text, "", Suite([]))
    return [{"role": "system", "content": prompt.system or SYSTEM}, {"role": "user", "content": text}]


def _suite(name: str, title: str, *, inputs: bool) -> RowSuite:
    return RowSuite(name, title, "cruxeval-org/cruxeval", _COLUMNS, _recognises, partial(_read, inputs))


OUTPUT = _suite("cruxeval-o", "CRUXEval (output prediction)", inputs=False)
INPUT = _suite("cruxeval-i", "CRUXEval (input prediction)", inputs=True)
