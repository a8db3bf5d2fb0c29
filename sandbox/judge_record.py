"""The JSON records of a submission with its tests, and of its verdict, for `curate judge` and `curate serve`.

The types determine the JSON and its schema; see json_codec.py.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from msgspec import UNSET, Meta, Struct, UnsetType

from sandbox import json_codec
from sandbox.box import Sandbox
from sandbox.errors import SandboxError
from sandbox.judge import Judgement, Verdict
from sandbox.program import BadLimit, Limits, Program
from sandbox.suite import PYTHON, Assertions, Case, Referee, RefereeConvention, Suite

LIMIT_FIELDS = {"wall_seconds": "time_limit_s", "memory_mb": "memory_limit_mb"}  # limit -> field of a record
_DEFAULTS = Limits()

Identity = Annotated[Any, Meta(description="as sent")]
Ignored = Annotated[Any, Meta(description="ignored")] | UnsetType
Seconds = Annotated[float, Meta(extra_json_schema={"default": _DEFAULTS.wall_seconds})] | UnsetType
Megabytes = Annotated[int, Meta(extra_json_schema={"default": _DEFAULTS.memory_mb})] | UnsetType
Checker = Annotated[str, Meta(extra_json_schema={"default": "lcb"})] | UnsetType
FunctionName = Annotated[str | None, Meta(description="the function to call, for kind function")]
Names = (
    Annotated[tuple[str, ...], Meta(description="names that a submission must define, for kind assertions")] | UnsetType
)
Classes = Annotated[tuple[str, ...], Meta(description="which names are classes, for kind assertions")] | UnsetType
Given = Annotated[str, Meta(description="Python that runs before the submission, for kind assertions")] | UnsetType
Setup = Annotated[str, Meta(description="Python that runs before each test, for kind assertions")] | UnsetType
Trial = Annotated[str, Meta(description="an output that the referee has accepted")] | UnsetType


class RecordCase(Struct, frozen=True, forbid_unknown_fields=True):
    """One test; see sandbox.Case."""

    input: str
    output: str
    trial: Trial = UNSET


class RecordReferee(Struct, frozen=True, forbid_unknown_fields=True):
    """The program that decides whether an output is correct; see sandbox.Referee."""

    code: str
    language: str = "python"
    convention: RefereeConvention = RefereeConvention.TESTLIB


class Record(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A submission and its tests.

    Ignored are `metadata`, for any content, and the other fields of `curate export --to jsonl`.
    """

    id: str | int
    code: str
    kind: Literal["stdin", "function", "assertions"]
    fn_name: FunctionName = None
    tests: Annotated[tuple[RecordCase, ...], Meta(min_length=1)]
    time_limit_s: Seconds = UNSET
    memory_limit_mb: Megabytes = UNSET
    language: str = "python"
    checker: Checker = UNSET
    referee: RecordReferee | UnsetType | None = UNSET
    names: Names = UNSET
    classes: Classes = UNSET
    given: Given = UNSET
    setup: Setup = UNSET
    starter_code: Ignored = UNSET
    metadata: Ignored = UNSET
    prompt: Ignored = UNSET
    system_prompt: Ignored = UNSET
    statement: Ignored = UNSET
    source: Ignored = UNSET
    url: Ignored = UNSET
    licence: Ignored = UNSET

    @classmethod
    def from_submission(cls, record_id: str | int, program: Program, suite: Suite) -> Self:
        """Return the record of a submission. Of the suite's limits, it has only the wall time and memory limits."""
        referee, shared = suite.referee, suite.assertions
        return cls(
            id=record_id,
            code=program.source,
            language=program.language,
            kind="assertions" if shared else "stdin" if suite.entry_point is None else "function",
            fn_name=suite.entry_point,
            tests=tuple(RecordCase(case.input, case.expected, case.trial or UNSET) for case in suite.cases),
            time_limit_s=suite.limits.wall_seconds,
            memory_limit_mb=suite.limits.memory_mb,
            checker=suite.checker,
            referee=UNSET
            if referee is None
            else RecordReferee(referee.program.source, referee.program.language, referee.convention),
            names=shared.names if shared else UNSET,
            classes=shared.classes if shared else UNSET,
            given=shared.given if shared else UNSET,
            setup=shared.setup if shared else UNSET,
        )

    @property
    def program(self) -> Program:
        return Program(self.code, self.language)

    @property
    def limit_fields(self) -> dict[str, str]:
        """The limits that the record sets: limit -> field."""
        return {limit: field for limit, field in LIMIT_FIELDS.items() if getattr(self, field) is not UNSET}

    @property
    def limits(self) -> Limits:
        """The limits of each run. Raises ValueError for an invalid one."""
        try:
            return Limits(**{limit: getattr(self, field) for limit, field in self.limit_fields.items()})
        except BadLimit as error:
            raise error.with_field_names(LIMIT_FIELDS) from None

    def to_suite(self, limits: Limits | None = None) -> Suite:
        """Return the suite of the record.

        limits   limits of each run; None for those of the record

        Raises ValueError if the record lacks a field that its kind requires.
        """
        if self.kind == "function" and self.fn_name is None:
            raise ValueError("a record of kind function needs field 'fn_name', a string")
        assertions = None
        if self.kind == "assertions":
            if not self.names:
                raise ValueError("a record of kind assertions needs field 'names', a list of names to define")
            assertions = Assertions(self.names, self.given or "", self.setup or "", self.classes or ())
        return Suite(
            [Case(case.input, case.output, case.trial or "") for case in self.tests],
            entry_point=self.fn_name if self.kind == "function" else None,
            checker=("lcb" if assertions is None else PYTHON) if self.checker is UNSET else self.checker,
            limits=limits or self.limits,
            referee=Referee(Program(self.referee.code, self.referee.language), self.referee.convention)
            if self.referee
            else None,
            assertions=assertions,
        )


class CaseVerdict(Struct, frozen=True):
    """The JSON record of the judgement of one test; see sandbox.CaseJudgement."""

    verdict: Verdict
    cpu_seconds: float
    wall_seconds: float
    memory_mb: float
    score: float
    detail: str


class JudgeVerdict(Struct, frozen=True):
    """The JSON record of the judgement of one submission; see sandbox.Judgement.

    Its field `verdict` is a sandbox.Verdict, such as accepted or wrong_answer.
    """

    id: Identity
    verdict: Verdict
    passed: bool
    pass_rate: float
    score: float
    cpu_seconds: float
    wall_seconds: float
    memory_mb: float
    tests: tuple[CaseVerdict, ...]

    @classmethod
    def from_judgement(cls, record_id: str | int, judgement: Judgement) -> Self:
        """Return the record of a judgement of the submission with this id."""
        cases = judgement.cases
        return cls(
            record_id,
            judgement.verdict,
            judgement.accepted,
            judgement.pass_rate,
            judgement.score,
            *_round_usage(
                sum(case.cpu_seconds for case in cases),
                sum(case.wall_seconds for case in cases),
                max(case.memory_mb for case in cases),
            ),
            tuple(
                CaseVerdict(
                    case.verdict,
                    *_round_usage(case.cpu_seconds, case.wall_seconds, case.memory_mb),
                    case.score,
                    case.detail,
                )
                for case in cases
            ),
        )


def _round_usage(cpu_seconds: float, wall_seconds: float, memory_mb: float) -> tuple[float, float, float]:
    return round(cpu_seconds, 6), round(wall_seconds, 6), round(memory_mb, 3)


def judge_lines(box: Sandbox, lines: Iterable[tuple[int, str]], *, run_all: bool) -> Iterator[Mapping[str, Any]]:
    """Judge the records of a JSON Lines file; yield the JSON object of a JudgeVerdict for each, in order.

    lines   (line number, text) of each record

    A malformed record, or one that the sandbox failed to judge, yields an object with `error` and the line number.
    """
    ready: dict[int, Mapping[str, Any]] = {}  # position in `lines` -> JSON object to yield
    pending: dict[int, tuple[int, int, str | int]] = {}  # index of a pair -> position, line number, id
    next_position = 0

    def generate_pairs() -> Iterator[tuple[Program, Suite]]:
        index = 0
        for position, (number, text) in enumerate(lines):
            identity = None
            try:
                raw = json_codec.loads(text)
                identity = raw.get("id") if isinstance(raw, dict) else None
                record = json_codec.decode(Record, raw)
                pair = record.program, record.to_suite()
            except ValueError as error:
                ready[position] = {"line": number, "id": identity, "error": f"malformed record: {error}"}
                continue
            pending[index] = position, number, record.id
            index += 1
            yield pair

    for index, response in box.judge_many_with_errors(generate_pairs(), run_all=run_all):
        position, number, identity = pending.pop(index)
        if isinstance(response, Judgement):
            ready[position] = json_codec.encode(JudgeVerdict.from_judgement(identity, response))
        else:
            cause = "sandbox" if isinstance(response, SandboxError) else "malformed record"
            ready[position] = {"line": number, "id": identity, "error": f"{cause}: {response}"}
        while next_position in ready:
            yield ready.pop(next_position)
            next_position += 1
    yield from (ready[position] for position in sorted(ready))
