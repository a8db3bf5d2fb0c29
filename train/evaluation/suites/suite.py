"""What every suite of rows has, and what a caller asks of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date

from curate.errors import CurateError
from curate.prompt import Chat, PromptFormat
from curate.reading.tables import Row, TableFiles, UnreadableRow, read_rows
from curate.reading.values import optional_text
from rewards.extract import PYTHON_ONLY
from sandbox import Suite
from train.evaluation.exercise import UNKNOWN_METADATA, Exercise
from train.evaluation.judges.judge import Judge
from train.evaluation.protocols.protocol import PromptStyle, Statement
from train.evaluation.statistics.outcomes import ProblemMetadata

DateRange = tuple[str, str]


@dataclass(frozen=True, slots=True)
class SuiteOptions:
    """What a caller asks of a suite.

    date_range  first and last day of contests, both included; None: all
    prompt      the form in which the model is asked
    languages   the languages that answers may be written in, where the tests can judge more than Python
    style       the official form of the prompt, if there is one, and how answers are read
    """

    date_range: DateRange | None = None
    prompt: PromptFormat = field(default_factory=PromptFormat)
    languages: tuple[str, ...] = PYTHON_ONLY
    style: PromptStyle = PromptStyle()

    @property
    def extraction(self) -> str:
        """Return the rule by which the program is found in an answer, which judges of programs need."""
        return self.style.extraction

    def make_exercise(
        self,
        id: str,
        statement: Statement,
        default_prompt: Chat,
        judge: Judge,
        facts: ProblemMetadata = UNKNOWN_METADATA,
    ) -> Exercise:
        """Return a problem, put to the model in the form that is asked for.

        statement       the problem as its row states it, for official forms
        default_prompt  the messages of our own form, which self.prompt decides
        """
        wording = self.style.render(self.prompt, statement, default_prompt)
        return Exercise(id, wording.prompt, judge, facts, wording.answer_prefix, wording.answer_suffix)

    def with_time_limit(self, tests: Suite) -> Suite:
        """Return the tests with the limit of time that is asked for, if there is one."""
        seconds = self.style.test_seconds
        return tests if seconds is None else replace(tests, limits=replace(tests.limits, wall_seconds=seconds))


@dataclass(frozen=True, slots=True)
class RowSuite:
    """A suite that is read from rows in their published form.

    name          what users type
    title         what people call it
    hub_id        where its rows are on the Hub, with the options that choose them
    columns       the columns by which it recognises its rows
    recognizes    tells whether it could read rows such as this one, which has the columns of all suites; a column that
                  is missing is None
    read          yields the exercises of a table whose rows it recognises
    has_dates     whether its problems have dates, so that a window can be applied
    tests_source  where its tests come from: "official", "examples" or "official+generated"
    """

    name: str
    title: str
    hub_id: str
    columns: tuple[str, ...]
    recognizes: Callable[[Row], bool]
    read: Callable[[TableFiles, SuiteOptions], Iterator[Exercise]]
    has_dates: bool = False
    tests_source: str = "official"


def parse_metadata(difficulty: object = None, platform: object = None, day: object = None) -> ProblemMetadata:
    """Return the facts of a problem from the columns of its row, in which "" means unknown as None does."""
    try:
        published = date.fromisoformat(optional_text(day)[:10])
    except ValueError:
        published = None
    return ProblemMetadata(optional_text(difficulty) or None, optional_text(platform) or None, published)


def valid_rows(table: TableFiles, columns: tuple[str, ...], optional: tuple[str, ...]) -> Iterator[Row]:
    """Yield the rows of a table. Raises CurateError for a row that cannot be read: every problem of a suite counts."""
    for row in read_rows(table, columns, optional):
        if isinstance(row, UnreadableRow):
            raise CurateError(f"{table.location}: {row.location}: {row.detail}. Download the file again.")
        yield row


def unreadable(table: TableFiles, id: str, error: object) -> CurateError:
    """Return the error that says that a row cannot be read."""
    return CurateError(f"{table.location}: {id} cannot be read ({error}). Download the file again.")
