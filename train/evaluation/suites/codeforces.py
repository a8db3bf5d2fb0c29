"""Problems of Codeforces contests, in three published forms.

open-r1    rows of open-r1/codeforces, with Codeforces' own tests. If `official_tests_complete` is false, they lack long
           tests, and open-r1's generated tests complete them: generated_tests/test_cases_CONTEST.parquet in the folder
           of the option `generated`. Problems without complete tests are skipped, and so are interactive problems and
           those with file input or output
DeepCoder  columns problem (the statement with tags and limits, without examples) and tests ([{"input", "output"}]).
           Its 408 rows include interactive problems, whose tests no program passes
CodeElo    columns problem_id, title, rating, time_limit_ms, memory_limit_mb, description, input, output, interaction,
           examples, note

DeepCoder's and CodeElo's tests are the examples of the statements. Wrong programs may pass them, so a rating measured
with them is an upper bound.

An id such as codeforces/1971/A has the contest and the index (see train/evaluation/codeforces). The id of a problem in
two contests has both: codeforces/2018/A,2019/C.

Codeforces' time and memory limits are for C++. Here, a program has five times the time and twice the memory, or the
factors in the options time_factor and memory_factor. The option contests selects problems by contest.
"""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from curate.errors import CurateError
from curate.reading.tables import Row, TableFiles, UnreadableRow, read_rows, validate_options
from curate.reading.values import (
    ParseError,
    deduplicate_cases,
    join_lines,
    optional_text,
    parse_json_or_literal,
    shorten,
)
from sandbox import Case, Limits, Program, Referee, RefereeConvention, Suite
from sandbox.suite import PROGRAM
from train.evaluation.codeforces.contests import (
    UnmatchedProblems,
    format_problem_id,
    parse_contest_ids,
    parse_problem_key,
)
from train.evaluation.protocols.forms import Statement
from train.evaluation.statistics.outcomes import ProblemMetadata
from train.evaluation.suites.suite import Exercise, RowSuite, SuiteOptions, make_row_error, read_valid_rows

log = logging.getLogger(__name__)

Keys = tuple[tuple[int, str], ...]  # (contest, index) in each contest of a problem
Filter = Callable[[Keys, date | None], bool]  # predicate for the keys and the date of a problem

OFFICIAL, GENERATED, EXAMPLES = "official", "official+generated", "examples"  # values of tests_source
TIME_FACTOR, MEMORY_FACTOR = 5.0, 2.0  # factors of Codeforces' limits, as an allowance for Python
_MIN_MB = 256
_DEFAULT_SECONDS, _DEFAULT_MB = 2.0, 256.0  # the most frequent limits, used for rows without limits
_CHECKER = "codeforces"
_OPTIONS = ("time_factor", "memory_factor", "contests", "generated")
# DeepCoder's rows by default, because open-r1's rows need 110 GB of generated tests.
_HUB_ID = "agentica-org/DeepCoder-Preview-Dataset?files=codeforces/*"

_OPEN_R1 = ("id", "description", "official_tests", "official_tests_complete")
_OPEN_R1_MORE = (
    "aliases", "title", "contest_start", "time_limit", "memory_limit", "input_format", "output_format",
    "interaction_format", "note", "examples", "rating", "input_mode", "generated_checker", "executable",
    "generated_tests",
)  # fmt: skip
_DEEPCODER = ("problem", "tests")
_CODEELO = ("problem_id", "description", "examples")
_CODEELO_MORE = ("title", "rating", "time_limit_ms", "memory_limit_mb", "input", "output", "interaction", "note")
_COLUMNS = tuple(dict.fromkeys((*_OPEN_R1, *_DEEPCODER, *_CODEELO)))
_DEEPCODER_LIMITS = re.compile(r"\nTime Limit: (\d+) ms\nMemory Limit: (\d+) MB\s*$")


@dataclass(frozen=True, slots=True)
class CodeforcesProblem:
    """A problem with the content of its row, before it becomes an exercise.

    keys          (contest, index) in each of its contests, the primary one first; empty: unknown
    name          name of a problem without keys
    statement     statement, with surrounding whitespace
    tests_source  OFFICIAL, GENERATED or EXAMPLES
    checker       Python program that prints 1 or 0, for problems with several correct outputs; empty: compare with the
                  expected outputs
    wall_seconds  stated time limit of each test; 0: unknown
    memory_mb     stated memory limit; 0: unknown
    """

    keys: Keys
    name: str
    statement: str
    cases: tuple[Case, ...]
    tests_source: str
    checker: str = ""
    wall_seconds: float = 0.0
    memory_mb: float = 0.0
    rating: int | None = None
    day: date | None = None

    def to_exercise(self, suite_options: SuiteOptions, time_factor: float, memory_factor: float) -> Exercise:
        limits = Limits(
            wall_seconds=time_factor * (self.wall_seconds or _DEFAULT_SECONDS),
            memory_mb=max(_MIN_MB, round(memory_factor * (self.memory_mb or _DEFAULT_MB))),
        )
        if self.checker:
            referee = Referee(Program(self.checker), RefereeConvention.PRINTED)
            tests = Suite(self.cases, checker=PROGRAM, limits=limits, referee=referee)
        else:
            tests = Suite(self.cases, checker=_CHECKER, limits=limits)
        return suite_options.make_exercise(
            format_problem_id(self.keys) or f"codeforces/{self.name}",
            Statement(self.statement),
            suite_options.prompt.build_chat(self.statement.strip(), "", tests),
            suite_options.make_suite_judge(tests),
            ProblemMetadata(self.rating, "codeforces", self.day, self.tests_source),
        )


def _recognizes(row: Row) -> bool:
    return _is_open_r1(row) or _is_deepcoder(row) or all(row[name] for name in _CODEELO)


def _is_open_r1(row: Row) -> bool:
    return bool(row["description"]) and row["official_tests_complete"] is not None


def _is_deepcoder(row: Row) -> bool:
    """Return whether a row is a Codeforces problem of DeepCoder; DeepCoder's other problems have no limits."""
    return bool(row["tests"]) and _DEEPCODER_LIMITS.search(optional_text(row["problem"])) is not None


def _read(table: TableFiles, suite_options: SuiteOptions) -> Iterator[Exercise]:
    options = validate_options(table, _OPTIONS)
    time_factor = _parse_factor(options, "time_factor", TIME_FACTOR)
    memory_factor = _parse_factor(options, "memory_factor", MEMORY_FACTOR)
    contests = frozenset(parse_contest_ids(str(options["contests"])) if "contests" in options else ())

    def is_wanted(keys: Keys, day: date | None) -> bool:
        """Return whether to include a problem. Raises CurateError if there is a date range, and the day is unknown."""
        if contests and not any(contest in contests for contest, _ in keys):
            return False
        if suite_options.date_range is None:
            return True
        if day is None:
            raise CurateError("These problems have no dates. Type --window '', or omit `window` in [evaluation].")
        return suite_options.date_range[0] <= day.isoformat() <= suite_options.date_range[1]

    exclusions: Counter[str] = Counter()
    n_unknown = 0
    ids: set[str] = set()
    for problem in _read_problems(table, is_wanted, exclusions):
        n_unknown += not problem.keys
        exercise = problem.to_exercise(suite_options, time_factor, memory_factor)
        if exercise.id in ids:
            raise CurateError(f"{table.location}: the problem {exercise.id} occurs twice. Remove one of the two rows.")
        ids.add(exercise.id)
        yield exercise
    for reason, n in exclusions.items():
        log.warning("%s: %d problems are excluded: they %s", table.location, n, reason)
    if n_unknown:
        log.warning("%s: %d problems belong to no known contest, so ratings exclude them", table.location, n_unknown)


def _parse_factor(options: Mapping[str, Any], name: str, default: float) -> float:
    try:
        value = float(options.get(name, default))
    except (TypeError, ValueError):
        value = 0.0
    if not 0 < value <= 1000:
        raise CurateError(f"{name} must be a number above 0, such as {default:g}, not {options[name]!r}")
    return value


def _read_problems(table: TableFiles, is_wanted: Filter, exclusions: Counter[str]) -> Iterator[CodeforcesProblem]:
    first = next(iter(read_rows(table, (), _COLUMNS)), None)
    if first is None or isinstance(first, UnreadableRow):
        return
    if _is_open_r1(first):
        yield from _read_open_r1(table, is_wanted, exclusions)
        return
    for problem in (_read_deepcoder if _is_deepcoder(first) else _read_codeelo)(table):
        if is_wanted(problem.keys, problem.day):
            yield problem


def _read_deepcoder(table: TableFiles) -> Iterator[CodeforcesProblem]:
    """Yield the problems of DeepCoder's rows; a problem has no key if it is not among the 408."""
    unmatched = UnmatchedProblems()
    for position, row in enumerate(read_valid_rows(table, _DEEPCODER, ())):
        name, text = f"row-{position}", str(row["problem"])
        id, limits = unmatched.pop_matching_id(text), _DEEPCODER_LIMITS.search(text)
        try:
            yield CodeforcesProblem(
                keys=(parse_problem_key(id),) if id else (),
                name=name,
                statement=text,
                cases=_parse_examples(row["tests"]),
                tests_source=EXAMPLES,
                wall_seconds=int(limits[1]) / 1000 if limits else 0.0,
                memory_mb=int(limits[2]) if limits else 0.0,
            )
        except ParseError as error:
            raise make_row_error(table, id or name, error) from None


def _read_codeelo(table: TableFiles) -> Iterator[CodeforcesProblem]:
    for row in read_valid_rows(table, _CODEELO, _CODEELO_MORE):
        id, rating = str(row["problem_id"]), row["rating"]
        try:
            cases = _parse_examples(row["examples"])
            yield CodeforcesProblem(
                keys=(parse_problem_key(id),),
                name=id,
                statement=_join_statement(
                    row, Input="input", Output="output", Interaction="interaction", Examples=cases, Note="note"
                ),
                cases=cases,
                tests_source=EXAMPLES,
                wall_seconds=float(row["time_limit_ms"] or 0) / 1000,
                memory_mb=float(row["memory_limit_mb"] or 0),
                rating=int(rating) if rating else None,
            )
        except (ParseError, ValueError) as error:
            raise make_row_error(table, id, error) from None


def _join_statement(row: Row, **sections: str | Sequence[Case]) -> str:
    """Join title, description and nonempty sections into a statement.

    sections: columns of the row, or examples, by heading
    """
    parts = [optional_text(row[name]).strip() for name in ("title", "description")]
    for heading, section in sections.items():
        text = optional_text(row[section]) if isinstance(section, str) else _format_examples(section)
        parts.append(f"## {heading}\n\n{text.strip()}" if text.strip() else "")
    return "\n\n".join(filter(None, parts))


def _format_examples(examples: Sequence[Case]) -> str:
    return "\n\n".join(
        f"Input:\n```\n{case.input.strip()}\n```\nOutput:\n```\n{case.expected.strip()}\n```" for case in examples
    )


def _parse_examples(encoded: object) -> tuple[Case, ...]:
    """Parse tests: a list, or its JSON text, of (input, output) pairs or of objects with input and output."""
    tests = parse_json_or_literal(encoded, "tests") if isinstance(encoded, str) else encoded
    if not isinstance(tests, list) or not tests:
        raise ParseError("it has no tests")
    return deduplicate_cases([_make_case(*_parse_pair(test)) for test in tests])


def _parse_pair(test: Any) -> tuple[object, object]:
    if isinstance(test, Mapping) and {"input", "output"} <= test.keys():
        return test["input"], test["output"]
    if isinstance(test, list | tuple) and len(test) == 2:
        return test[0], test[1]
    raise ParseError("a test has no input and output")


def _make_case(given: object, expected: object) -> Case:
    return Case(join_lines(given, "an input"), join_lines(expected, "an output"))


def _read_open_r1(table: TableFiles, is_wanted: Filter, exclusions: Counter[str]) -> Iterator[CodeforcesProblem]:
    """Yield the wanted problems, sorted by contest, and count the excluded ones by reason.

    Raises CurateError if the folder of generated tests is invalid.
    """
    folder = _find_generated_folder(table)
    chosen: list[tuple[Keys, date | None, Row]] = []
    for row in read_valid_rows(table, _OPEN_R1, _OPEN_R1_MORE):
        keys = tuple(dict.fromkeys(map(parse_problem_key, (str(row["id"]), *(row["aliases"] or ())))))
        start = row["contest_start"]
        day = datetime.fromtimestamp(start, UTC).date() if start else None
        if not is_wanted(keys, day):
            continue
        reason = _find_exclusion_reason(row, folder)
        if reason:
            exclusions[reason] += 1
        else:
            chosen.append((keys, day, row))
    for keys, day, row in sorted(chosen, key=lambda one: one[0]):
        try:
            yield _make_open_r1_problem(row, keys, day, folder)
        except (ParseError, ValueError, KeyError, TypeError) as error:
            raise make_row_error(table, str(row["id"]), error) from None


def _find_generated_folder(table: TableFiles) -> Path | None:
    if "generated" not in table.options:
        return None
    folder = Path(str(table.options["generated"])).expanduser()
    inside = folder / "generated_tests"
    folder = inside if inside.is_dir() else folder
    if not any(folder.glob("test_cases_*.parquet")):
        raise CurateError(
            f"{folder} has no test_cases_*.parquet. Download them: hf download open-r1/codeforces --repo-type dataset "
            f"--include 'generated_tests/*.parquet' --local-dir {folder}"
        )
    return folder


def _find_exclusion_reason(row: Row, folder: Path | None) -> str:
    """Return why to exclude a problem, as the end of a sentence; "" to include it."""
    if optional_text(row["interaction_format"]).strip():
        return "are interactive"
    if optional_text(row["input_mode"]) == "file":
        return "read or write files"
    if row["executable"] is False:
        return "are not executable, according to open-r1"
    if row["official_tests_complete"]:
        return "" if row["official_tests"] else "have no tests"
    if folder is None:
        return "lack the generated tests, which ?generated=FOLDER names"
    return "" if row["generated_tests"] and _build_generated_path(row, folder).is_file() else "have no generated tests"


def _make_open_r1_problem(row: Row, keys: Keys, day: date | None, folder: Path | None) -> CodeforcesProblem:
    id, is_complete = str(row["id"]), bool(row["official_tests_complete"])
    tests = _make_open_r1_cases(row["official_tests"])
    if not is_complete and folder is not None:
        tests += _make_open_r1_cases(_read_generated_rows(_build_generated_path(row, folder)).get(id))
    examples = _make_open_r1_cases(row["examples"])
    return CodeforcesProblem(
        keys=keys,
        name=id,
        statement=_join_statement(row, Input="input_format", Output="output_format", Examples=examples, Note="note"),
        cases=deduplicate_cases(tests),
        tests_source=OFFICIAL if is_complete else GENERATED,
        checker=optional_text(row["generated_checker"]),
        wall_seconds=float(row["time_limit"] or 0),
        memory_mb=float(row["memory_limit"] or 0),
        rating=int(row["rating"]) if row["rating"] else None,
        day=day,
    )


def _make_open_r1_cases(tests: list[Any] | None) -> tuple[Case, ...]:
    return tuple(_make_case(test["input"], test["output"]) for test in tests or ())


def _build_generated_path(row: Row, folder: Path) -> Path:
    return folder / f"test_cases_{parse_problem_key(str(row['id']))[0]:04d}.parquet"


@lru_cache(maxsize=1)  # one file suffices, because its problems are consecutive
def _read_generated_rows(path: Path) -> dict[str, list[Row]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        by_problem: dict[str, list[Row]] = {}
        for row in pq.read_table(path, columns=["problem_id", "input", "output"]).to_pylist():
            by_problem.setdefault(str(row["problem_id"]), []).append(row)
        return by_problem
    except (OSError, pa.ArrowException) as error:
        raise CurateError(f"{path} cannot be read as generated tests ({shorten(error)}). Download it again.") from None


SUITE = RowSuite("codeforces", "Codeforces", _HUB_ID, _COLUMNS, _recognizes, _read, has_dates=True)
