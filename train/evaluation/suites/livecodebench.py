"""LiveCodeBench, all releases: contest problems, judged by public and private tests.

`?errata=leave-out` excludes the problems in LiveCodeBench's own list of errata.
"""

import logging
from collections.abc import Iterator
from dataclasses import replace

from curate.errors import CurateError
from curate.problem import Problem
from curate.reading.tables import Row, TableFiles
from curate.sources.livecodebench import HUB_ID, read, select_files
from train.evaluation.protocols.forms import Statement
from train.evaluation.suites.suite import Exercise, RowSuite, SuiteOptions, parse_metadata

log = logging.getLogger(__name__)

_ERRATA, _LEAVE_OUT = "errata", "leave-out"  # option of the suite, and its only value

# Ids or titles of problems in LiveCodeBench's ERRATA.md; their tests reject correct programs.
ERRATA = frozenset(
    # problems with several correct answers
    "abc311_c abc326_d abc327_b abc333_e abc343_a abc343_e abc362_c arc185_c find-words-containing-character "
    "find-the-peaks generate-binary-strings-without-adjacent-zeros "
    # interactive problems
    "abc337_e abc355_e "
    # problems with wrong tests
    "abc350_c arc189_a apply-operations-to-make-string-empty most-frequent-ids".split()
)


def _recognizes(row: Row) -> bool:
    return bool(row["question_content"])


def _read(table: TableFiles, suite_options: SuiteOptions) -> Iterator[Exercise]:
    options = dict(table.options)
    errata = options.pop(_ERRATA, None)
    if errata not in (None, _LEAVE_OUT):
        raise CurateError(f"{table.location}: {_ERRATA} must be {_LEAVE_OUT}, not {errata!r}")
    if suite_options.date_range is not None:
        options |= {"from": suite_options.date_range[0], "to": suite_options.date_range[1]}
    for row in read(select_files(replace(table, options=options))):
        if not isinstance(row, Problem):  # some problems have error messages instead of expected outputs
            log.warning("%s: %s is unreadable and left out: %s", table.location, row.id, row.detail)
        elif errata is None or not {row.id.partition("/")[2], row.title} & ERRATA:
            yield suite_options.make_exercise(
                row.id,
                Statement(row.statement, row.starter_code, row.tests.entry_point),
                suite_options.prompt.build_chat(row.statement, row.starter_code, row.tests),
                suite_options.make_suite_judge(row.tests),
                parse_metadata(row.difficulty, row.platform, row.date),
            )


SUITE = RowSuite("lcb", "LiveCodeBench", HUB_ID, ("question_content",), _recognizes, _read, has_dates=True)
