"""The interface of evaluation suites: suites of rows, a caller's options, and exercises."""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date

from curate.errors import CurateError
from curate.prompt import Chat, PromptFormat
from curate.reading.tables import Row, TableFiles, UnreadableRow, read_rows, validate_options
from curate.reading.values import optional_text
from rewards.extract import PYTHON_ONLY
from rewards.form import format_length_instruction
from sandbox import Sandbox, Suite
from train.evaluation.judges.judge import Judge, JudgeResult, SuiteJudge
from train.evaluation.protocols.forms import Statement, make_chat
from train.evaluation.protocols.settings import DEFAULT, SuiteSettings
from train.evaluation.statistics.outcomes import ProblemMetadata

DateRange = tuple[str, str]
UNKNOWN_METADATA = ProblemMetadata()


@dataclass(frozen=True, slots=True)
class Exercise:
    """A problem, its judge, and its metadata.

    prompt         messages (a final assistant message is a prefill), or plain text to continue
    answer_prefix  text before a completion for the judge: the prefill or the beginning of the program
    answer_suffix  text after a completion for the judge, such as the end of a block where sampling stopped
    """

    id: str
    prompt: Chat | str
    judge: Judge
    metadata: ProblemMetadata = UNKNOWN_METADATA
    answer_prefix: str = ""
    answer_suffix: str = ""

    @property
    def fingerprint(self) -> str:
        """Return the digest of all inputs of a verdict, except the model and its sampling."""
        around = [[self.answer_prefix, self.answer_suffix]] if self.answer_prefix or self.answer_suffix else []
        identity = [self.id, self.prompt, *self.judge.identity, *around]
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]

    def request_length(self, target_tokens: int) -> "Exercise":
        """Append a request for a completion of this length to the last user message.

        Raises CurateError if the prompt is plain text to continue.
        """
        if isinstance(self.prompt, str):
            raise CurateError("only a chat can request a length. Leave --target-tokens out, or choose --mode chat.")
        instruction = format_length_instruction(target_tokens)
        last = max(index for index, message in enumerate(self.prompt) if message["role"] == "user")
        chat = [
            {**message, "content": f"{message['content']}\n{instruction}"} if index == last else message
            for index, message in enumerate(self.prompt)
        ]
        return replace(self, prompt=chat)

    def assemble_text(self, completion: str) -> str:
        return self.answer_prefix + completion + self.answer_suffix

    def judge_completion(self, completion: str, sandbox: Sandbox, *, time_factor: float = 1.0) -> JudgeResult:
        return self.judge.judge(self.assemble_text(completion), sandbox, time_factor=time_factor)


@dataclass(frozen=True, slots=True)
class SuiteOptions:
    """A caller's options for a suite.

    date_range  first and last contest date, inclusive; None: all
    prompt      the user's templates and system prompt
    languages   accepted languages of completions, if the tests can judge more than Python
    settings    published form of the prompt, extraction rule and time limit
    """

    date_range: DateRange | None = None
    prompt: PromptFormat = field(default_factory=PromptFormat)
    languages: tuple[str, ...] = PYTHON_ONLY
    settings: SuiteSettings = DEFAULT

    def make_exercise(
        self,
        id: str,
        statement: Statement,
        default_prompt: Chat,
        judge: Judge,
        metadata: ProblemMetadata = UNKNOWN_METADATA,
    ) -> Exercise:
        """Build the exercise, with a prompt in the requested form.

        statement       statement for official forms
        default_prompt  messages in our own form, built with self.prompt
        """
        prompt, prefix, suffix = self.settings.render(self.prompt, statement, default_prompt)
        return Exercise(id, prompt, judge, metadata, prefix, suffix)

    def make_default_chat(self, statement: str, text: str, system: str = "") -> Chat:
        """Return the messages in a suite's own form, which the user's template overrides.

        statement  value for the template
        text       user message in the suite's own form
        system     system prompt in the suite's own form; empty: none
        """
        if self.prompt.template:
            return self.prompt.build_chat(statement, "", Suite([]))
        return make_chat(self.prompt.system or system, text)

    def make_suite_judge(self, tests: Suite, prompt: str = "") -> SuiteJudge:
        """Return the judge with these tests, and the caller's languages, extraction rule and time limit.

        prompt: beginning of the program in the prompt; empty: none
        """
        seconds = self.settings.test_seconds
        if seconds is not None:
            tests = replace(tests, limits=replace(tests.limits, wall_seconds=seconds))
        return SuiteJudge(tests, self.languages, self.settings.extraction, prompt)


@dataclass(frozen=True, slots=True)
class RowSuite:
    """A suite of rows in their published form.

    name        command-line name
    hub_id      dataset on the Hub, with options that select its rows
    columns     columns that identify its rows
    recognizes  predicate for a row with the columns of all suites; missing columns are None
    read        function that yields the exercises of a table of such rows
    has_dates   whether its problems have dates for a window
    """

    name: str
    title: str
    hub_id: str
    columns: tuple[str, ...]
    recognizes: Callable[[Row], bool]
    read: Callable[[TableFiles, SuiteOptions], Iterator[Exercise]]
    has_dates: bool = False


def parse_metadata(difficulty: object = None, platform: object = None, day: object = None) -> ProblemMetadata:
    """Parse metadata from the columns of a row; "" and None mean unknown."""
    try:
        published = date.fromisoformat(optional_text(day)[:10])
    except ValueError:
        published = None
    return ProblemMetadata(optional_text(difficulty) or None, optional_text(platform) or None, published)


def read_valid_rows(table: TableFiles, columns: tuple[str, ...], optional: tuple[str, ...]) -> Iterator[Row]:
    """Yield the rows of a table. Raises CurateError for an unreadable row."""
    for row in read_rows(table, columns, optional):
        if isinstance(row, UnreadableRow):
            raise CurateError(f"{table.location}: {row.location}: {row.detail}. Download the file again.")
        yield row


def make_row_error(table: TableFiles, id: str, error: object) -> CurateError:
    return CurateError(f"{table.location}: {id} cannot be read ({error}). Download the file again.")


def read_switch(table: TableFiles, option: str, default: str, alternative: str) -> bool:
    """Return whether the option has the value `alternative`; an absent option has the value `default`.

    Raises CurateError for other values and options.
    """
    value = validate_options(table, (option,)).get(option, default)
    if value not in (default, alternative):
        raise CurateError(f"{table.location}: {option} must be {default} or {alternative}, not {value!r}")
    return bool(value == alternative)
