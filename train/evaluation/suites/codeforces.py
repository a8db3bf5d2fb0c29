"""Problems of Codeforces contests, in three published forms. The source of the tests is a fact of each problem.

The rows of open-r1/codeforces have Codeforces' own tests, those of DeepCoder and CodeElo the examples of the
statements. An id such as codeforces/1971/A has the contest and the index, so that contests can be rated (see
train/evaluation/codeforces); a problem of two contests has both: codeforces/2018/A,2019/C.

The time and memory that Codeforces allows suit C++. Here, a program has five times the time and twice the memory; the
options time_factor and memory_factor change that. The option contests chooses problems by their contests.
"""

import logging
from collections import Counter
from collections.abc import Iterator

from curate.errors import CurateError
from curate.reading.tables import Row, TableFiles, UnreadableRow, read_rows, validate_options
from train.evaluation.exercise import Exercise
from train.evaluation.suites import codeforces_examples, codeforces_tests
from train.evaluation.suites.codeforces_problem import CodeforcesProblem, LimitFactors, ProblemFilter
from train.evaluation.suites.suite import RowSuite, SuiteOptions

log = logging.getLogger(__name__)

_OPTIONS = ("time_factor", "memory_factor", "contests", "generated")
# DeepCoder's own set: the rows of open-r1 are of little use without their generated tests, which have 110 GB.
_HUB_ID = "agentica-org/DeepCoder-Preview-Dataset?files=codeforces/*"


def _recognises(row: Row) -> bool:
    return (
        codeforces_tests.is_open_r1(row) or codeforces_examples.is_deepcoder(row) or codeforces_examples.is_codeelo(row)
    )


def _read(table: TableFiles, asked: SuiteOptions) -> Iterator[Exercise]:
    validate_options(table, _OPTIONS)
    factors = LimitFactors.of(table)
    left_out: Counter[str] = Counter()
    n_unknown = 0
    ids: set[str] = set()
    for problem in _problems(table, ProblemFilter.of(table, asked), left_out):
        n_unknown += not problem.keys
        exercise = problem.exercise(asked, factors)
        if exercise.id in ids:
            raise CurateError(
                f"{table.location}: the problem {exercise.id} is there twice. Remove one of the two rows."
            )
        ids.add(exercise.id)
        yield exercise
    for reason, n in left_out.items():
        log.warning("%s: %d problems are left out: they %s", table.location, n, reason)
    if n_unknown:
        log.warning(
            "%s: %d problems are of no known contest, no rating by contests has them", table.location, n_unknown
        )


def _problems(table: TableFiles, chosen: ProblemFilter, left_out: Counter[str]) -> Iterator[CodeforcesProblem]:
    first = next(read_rows(table, (), _COLUMNS), None)
    if first is None or isinstance(first, UnreadableRow):
        return
    if codeforces_tests.is_open_r1(first):
        yield from codeforces_tests.read(table, chosen, left_out)
        return
    read = (
        codeforces_examples.read_deepcoder_problems
        if codeforces_examples.is_deepcoder(first)
        else codeforces_examples.read_codeelo_problems
    )
    for problem in read(table):
        if chosen.matches(problem.keys, problem.day):
            yield problem


_COLUMNS = tuple(
    dict.fromkeys((*codeforces_tests.COLUMNS, *codeforces_examples.DEEPCODER, *codeforces_examples.CODEELO))
)
SUITE = RowSuite("codeforces", "Codeforces", _HUB_ID, _COLUMNS, _recognises, _read, has_dates=True)
