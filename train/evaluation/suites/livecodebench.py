"""LiveCodeBench, all releases: contest problems with public and private tests, of which all count.

With `?errata=leave-out`, the problems that LiveCodeBench's own list of errata names are left out.
"""

import logging
from collections.abc import Iterator
from dataclasses import replace

from curate.errors import CurateError
from curate.problem import Problem
from curate.reading.tables import Row, TableFiles
from curate.sources.livecodebench import HUB_ID, read, select_files
from train.evaluation.exercise import Exercise
from train.evaluation.judges.judge import SuiteJudge
from train.evaluation.protocols.protocol import Statement
from train.evaluation.suites.livecodebench_errata import ERRATA
from train.evaluation.suites.suite import RowSuite, SuiteOptions, parse_metadata

log = logging.getLogger(__name__)

_ERRATA, _LEAVE_OUT = "errata", "leave-out"  # an option, and its value


def _recognises(row: Row) -> bool:
    return bool(row["question_content"])


def _read(table: TableFiles, asked: SuiteOptions) -> Iterator[Exercise]:
    errata = table.options.get(_ERRATA)
    if errata not in (None, _LEAVE_OUT):
        raise CurateError(f"{table.location}: {_ERRATA} must be {_LEAVE_OUT}, not {errata!r}")
    table = replace(table, options={name: value for name, value in table.options.items() if name != _ERRATA})
    if asked.date_range is not None:
        table = replace(table, options={**table.options, "from": asked.date_range[0], "to": asked.date_range[1]})
    for row in read(select_files(table)):
        if not isinstance(row, Problem):  # some problems have error messages as expected values
            log.warning("%s: %s is left out, it cannot be read: %s", table.location, row.id, row.detail)
        elif errata is None or not _is_erratum(row):
            yield _exercise(row, asked)


def _is_erratum(row: Problem) -> bool:
    return row.id.partition("/")[2] in ERRATA or row.title in ERRATA


def _exercise(row: Problem, asked: SuiteOptions) -> Exercise:
    statement = Statement(row.statement, row.starter_code, row.tests.entry_point)
    chat = asked.prompt.chat(row.statement, row.starter_code, row.tests)
    judge = SuiteJudge(asked.with_time_limit(row.tests), asked.languages, asked.extraction)
    return asked.make_exercise(row.id, statement, chat, judge, parse_metadata(row.difficulty, row.platform, row.date))


SUITE = RowSuite("lcb", "LiveCodeBench", HUB_ID, ("question_content",), _recognises, _read, has_dates=True)
