"""The requests to a backend: run a program once, or judge it by a suite."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Generic, Self, TypeVar

from sandbox import referee
from sandbox.judge import MAX_OUTPUTS_BYTES, Judgement
from sandbox.program import Invocation, Limits, Program, RunResult
from sandbox.suite import INTERACTIVE, Suite

Response = TypeVar("Response")
ResponseType = TypeVar("ResponseType", covariant=True)

_MAX_CASE_BYTES = 16 << 10  # maximum size of an encoded CaseJudgement
_MAX_FIXED_BYTES = 1 << 20  # maximum size of the parts of a result that do not depend on the request


class Request(ABC, Generic[ResponseType]):
    """A request to a backend. The type parameter is the type of its result."""

    __slots__ = ()

    @property
    @abstractmethod
    def result_type(self) -> type[ResponseType]: ...

    @property
    @abstractmethod
    def run_limits(self) -> Limits:
        """The limits of each run of the submitted program."""

    @property
    @abstractmethod
    def memory_mb(self) -> int:
        """Memory limit of all programs together that the request runs concurrently, in MB."""

    @property
    @abstractmethod
    def n_data_bytes(self) -> int:
        """Size of the request's input data."""

    @property
    @abstractmethod
    def max_result_bytes(self) -> int:
        """Upper bound of the size of the encoded result."""

    @abstractmethod
    def with_limits(self, limits: Limits) -> Self:
        """Return the request with other limits for each run."""


@dataclass(frozen=True, slots=True)
class RunRequest(Request[RunResult]):
    """A request to run a program once; POST /run of the service."""

    program: Program
    invocation: Invocation = field(default_factory=Invocation)
    limits: Limits = field(default_factory=Limits)

    @property
    def result_type(self) -> type[RunResult]:
        return RunResult

    @property
    def run_limits(self) -> Limits:
        return self.limits

    @property
    def memory_mb(self) -> int:
        return self.limits.memory_mb

    @property
    def n_data_bytes(self) -> int:
        return len(self.invocation.stdin) + sum(map(len, self.invocation.files.values()))

    @property
    def max_result_bytes(self) -> int:
        return 3 * self.limits.output_kb * 1024 + _MAX_FIXED_BYTES  # stdout, stderr, and all fetched files together

    def with_limits(self, limits: Limits) -> Self:
        return replace(self, limits=limits)


@dataclass(frozen=True, slots=True)
class JudgeRequest(Request[Judgement]):
    """A request to judge a program by a suite; POST /judge_suite of the service.

    run_all       whether to continue after a failed case
    keep_outputs  whether to return Judgement.outputs
    """

    program: Program
    suite: Suite
    run_all: bool = False
    keep_outputs: bool = False

    @property
    def result_type(self) -> type[Judgement]:
        return Judgement

    @property
    def run_limits(self) -> Limits:
        return self.suite.limits

    @property
    def memory_mb(self) -> int:
        # Only interactive referees and statement tests run concurrently with the program.
        is_concurrent = self.suite.checker == INTERACTIVE or self.suite.has_statements
        referee_mb = referee.LIMITS.memory_mb if is_concurrent else 0
        return self.suite.limits.memory_mb + referee_mb

    @property
    def n_data_bytes(self) -> int:
        shared = self.suite.assertions
        n_shared_bytes = 0 if shared is None else len(shared.given) + len(shared.setup)
        return n_shared_bytes + sum(len(case.input) + len(case.expected) + len(case.trial) for case in self.suite.cases)

    @property
    def max_result_bytes(self) -> int:
        return len(self.suite.cases) * _MAX_CASE_BYTES + MAX_OUTPUTS_BYTES + _MAX_FIXED_BYTES

    def with_limits(self, limits: Limits) -> Self:
        return replace(self, suite=replace(self.suite, limits=limits))
