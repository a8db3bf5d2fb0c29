"""Run untrusted programs and judge them.

    with Sandbox() as box:
        judgement = box.judge(Program("print(input())"), Suite([Case("7", "7")]))

A failed program is a value: a RunResult or a Judgement. A failed sandbox raises SandboxError: the program then has no
result, so do not score it zero. An invalid request raises ValueError.

    box            Sandbox, the class that most callers use
    options        SandboxOptions, the options of commands and builds for a Sandbox
    packages       Package, and the search for installed packages that programs can import
    program        the inputs and results of a run: Program, Invocation, Limits, Outcome, RunResult
    suite          tests as data: Case, Suite, Referee, Assertions
    judge          verdicts: Verdict, CaseJudgement, Judgement
    errors         failures of the sandbox itself
    checkers/      rules of comparison, one file each
    languages/     compiling and starting programs, one file per language
    referee        parses the ruling of a referee: a suite's own checker program or interactor
    return_values  decodes untrusted return values of calls
    literals       parses the Python literals that tests expect

    backends/      execute programs, one file each: local, docker, ray, http
    request        the requests to a backend
    judging/       the judge of a worker: it runs the cases of a suite, and decides verdicts
    jail/          the isolated environment of programs: warden, zygotes and children
    kernel/        seccomp, Landlock, cgroups and namespaces
    image/         the image of the docker backend's containers
    limit_bounds   upper bounds for limits
    machine        available memory and processors
    concurrency/   threads, timeouts, cancellation and locks
    closeable      the base class of objects that hold resources

    json_codec     types to and from JSON, and to JSON Schema
    judge_record   submissions and verdicts as JSON records
    service/       a Sandbox over HTTP
    conformance    checks that every backend must pass
    commands/      `curate judge`, `curate doctor`, `curate serve`
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandbox.box import Sandbox
    from sandbox.concurrency.cancellation import CancelToken
    from sandbox.errors import (
        BackendUnavailable,
        Cancelled,
        ExecutionLost,
        KilledExternally,
        RefereeError,
        SandboxError,
    )
    from sandbox.judge import CaseJudgement, Judgement, Verdict
    from sandbox.options import SandboxOptions
    from sandbox.packages import Package
    from sandbox.program import Invocation, Limits, Outcome, Program, RunResult
    from sandbox.suite import Assertions, Case, Referee, RefereeConvention, Suite

__all__ = [
    "Assertions",
    "BackendUnavailable",
    "CancelToken",
    "Cancelled",
    "Case",
    "CaseJudgement",
    "RefereeConvention",
    "ExecutionLost",
    "Invocation",
    "Judgement",
    "KilledExternally",
    "Limits",
    "Outcome",
    "Package",
    "Program",
    "Referee",
    "RefereeError",
    "RunResult",
    "Sandbox",
    "SandboxError",
    "SandboxOptions",
    "Suite",
    "Verdict",
]

_HOMES = {
    "box": ["Sandbox"],
    "concurrency.cancellation": ["CancelToken"],
    "suite": ["Assertions", "Case", "Referee", "RefereeConvention", "Suite"],
    "errors": ["BackendUnavailable", "Cancelled", "ExecutionLost", "KilledExternally", "RefereeError", "SandboxError"],
    "judge": ["CaseJudgement", "Judgement", "Verdict"],
    "options": ["SandboxOptions"],
    "packages": ["Package"],
    "program": ["Invocation", "Limits", "Outcome", "Program", "RunResult"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    # Modules load on first use: zygotes import this package too, and a larger zygote forks more slowly.
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
