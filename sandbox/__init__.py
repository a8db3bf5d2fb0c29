"""Run untrusted programs and judge them.

    with Sandbox() as box:
        judgement = box.judge(Program("print(input())"), Suite([Case("7", "7")]))

A program that fails is a value: a RunResult or a Judgement says how. A sandbox that fails raises SandboxError, the base
class to catch: nothing is known about the program then, and that is not a zero. A request that is itself wrong raises
ValueError.

    box            Sandbox, the one thing that most callers need
    options        SandboxOptions, by which commands and builds open a Sandbox
    packages       Package, and the search for packages that programs can import besides the standard library
    program        what enters a run and what leaves it: Program, Invocation, Limits, Outcome, RunResult
    suite          tests as data: Case, Suite, Referee, Assertions
    judge          from runs to verdicts: Verdict, CaseJudgement, Judgement
    errors         what can go wrong with the sandbox itself
    checkers/      rules that compare an output with the expected one, one file each
    languages/     how programs are compiled and started, one file for each language
    referee        reads the ruling of a suite's own checker program or interactor
    return_values  reads the value that a call returned, as a hostile process wrote it
    literals       reads the Python literals that tests expect

    backends/      where programs run, one file each: local, docker, ray, http
    request        what a backend is asked to do
    jail/          one worker: the processes that shut programs in, run them and judge them
    image/         the image of the docker backend's containers
    limit_bounds   upper bounds for limits
    machine        how much memory and how many processors there are
    concurrency/   threads, deadlines, cancellation and locks
    closeable      the base class of objects that hold resources

    json_codec     types to JSON and to JSON Schema, and JSON to types
    judge_record   submissions and verdicts as JSON records
    service/       a Sandbox over HTTP
    conformance    the checks that every backend must pass
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
    "errors": [
        "BackendUnavailable",
        "Cancelled",
        "ExecutionLost",
        "KilledExternally",
        "RefereeError",
        "SandboxError",
    ],
    "judge": ["CaseJudgement", "Judgement", "Verdict"],
    "options": ["SandboxOptions"],
    "packages": ["Package"],
    "program": ["Invocation", "Limits", "Outcome", "Program", "RunResult"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    # Loaded on first use: zygotes import this package, too, and each fork pays for what its zygote holds.
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
