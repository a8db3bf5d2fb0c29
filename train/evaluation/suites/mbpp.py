"""MBPP, judged by its own assertions in a place that no answer can reach.

Only the rows of its test split are problems: numbers 11 to 510, of which the sanitized version has 257. The others are
meant for prompts and training. As in the paper, the model sees the task and its tests. The program is the answer alone.
"""

from collections.abc import Iterator

from curate.errors import CurateError
from curate.prompt import Chat, PromptFormat
from curate.reading.assertions.dependencies import defined_classes, defined_names
from curate.reading.dialects import assertions
from curate.reading.tables import Row, TableFiles, validate_options
from curate.reading.values import ParseError, optional_text, parse_text_list
from sandbox import Limits, Suite
from train.evaluation.exercise import Exercise
from train.evaluation.judges.judge import SuiteJudge
from train.evaluation.protocols.protocol import Statement
from train.evaluation.suites.evalplus import is_hub_form, mbpp_docstring
from train.evaluation.suites.suite import RowSuite, SuiteOptions, unreadable, valid_rows

_COLUMNS = ("task_id", "code", "test_list")
_OPTIONAL = ("text", "prompt", "test_setup_code", "test_imports", "test")
_TEST_SPLIT = range(11, 511)
_LIMITS = Limits(wall_seconds=3.0, memory_mb=1024)  # the seconds of the usual harness


def _recognises(row: Row) -> bool:
    return all(row[name] for name in _COLUMNS) and not is_hub_form(row)


def _read(table: TableFiles, asked: SuiteOptions) -> Iterator[Exercise]:
    validate_options(table, ())
    outside = inside = 0
    for row in valid_rows(table, _COLUMNS, _OPTIONAL):
        number = optional_text(row["task_id"])
        if not number.isdecimal() or int(number) not in _TEST_SPLIT:
            outside += 1
            continue
        inside += 1
        try:
            yield _exercise(f"mbpp/{number}", row, asked)
        except ParseError as error:
            raise unreadable(table, f"mbpp/{number}", error) from None
    if outside and not inside:
        raise CurateError(
            f"{table.location}: none of its rows is in the test split of MBPP (numbers 11 to 510). Of several files, "
            "PATH?files=PATTERN chooses some."
        )


def _exercise(id: str, row: Row, asked: SuiteOptions) -> Exercise:
    code = optional_text(row["code"]).replace("\r\n", "\n")
    listed = parse_text_list(row["test_list"], "test_list")
    setup = [optional_text(row["test_setup_code"]), *parse_text_list(row["test_imports"], "test_imports")]
    tests = assertions.read(
        listed, setup="\n".join(setup), defined_names=defined_names(code), classes=defined_classes(code)
    ).suite(_LIMITS)
    statement = (optional_text(row["text"]) or optional_text(row["prompt"])).strip()
    stated = Statement(mbpp_docstring("\n".join([statement, *listed[:1]])))
    judge = SuiteJudge(tests, asked.languages, asked.extraction)
    return asked.make_exercise(id, stated, _chat(asked.prompt, statement, listed, tests), judge)


def _chat(prompt: PromptFormat, statement: str, listed: list[str], tests: Suite) -> Chat:
    shown = "\n".join(listed)
    return prompt.chat(f"{statement}\n\nThese are its tests:\n\n```python\n{shown}\n```", "", tests)


SUITE = RowSuite(
    "mbpp", "MBPP", "google-research-datasets/mbpp?files=full/test-*", (*_COLUMNS, *_OPTIONAL), _recognises, _read
)
