"""POST /run_code in SandboxFusion's words, so that its clients, verl's among them, need no change.

As its server does: `Finished` with the exit status for whatever ended, rightly or not, and `TimeLimitExceeded` without
one; a Python program that does not compile is a run that failed with status 1; a limit of memory above zero counts,
others do not; unknown fields are passed over. Otherwise than its server:
    - stdout is whole or the run has failed: it is not cut at 1 MB. Bytes that are not UTF-8 are replaced.
    - a run that exceeds memory or output or is forbidden something has a return code other than 0, whatever the program
      itself said, and the reason as the last line of stderr.
    - compile_timeout is not used: the compiler has limits of its own.
    - the sandbox failing is no answer in these words: the request gets 504, upon which verl and the PyPI client ask
      again. Of a 200 with `SandboxError`, verl makes a failure of the program.
"""

import base64
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from sandbox import messages
from sandbox.program import Invocation, Limits, Outcome, Program, RunResult

MEMORY_MB = 1024  # where none is asked for; what verl asks for
_KILLED = -9
_INTERPRETED = {"python"}
_REASONS = {
    Outcome.OUT_OF_MEMORY: "memory limit of {0.memory_mb} MB exceeded",
    Outcome.OUTPUT_LIMIT: "output limit of {0.output_kb} KB exceeded",
    Outcome.VIOLATION: "forbidden system call",
}


@dataclass(frozen=True, slots=True)
class RunCodeRequest:
    """files: name -> base64. Timeouts in seconds."""

    code: str
    language: str
    stdin: str | None = None
    run_timeout: float = 10
    compile_timeout: float = 10
    memory_limit_MB: int | None = None
    files: Mapping[str, str | None] = field(default_factory=dict)
    fetch_files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CommandRunResult:
    """status: Finished or TimeLimitExceeded."""

    status: str
    execution_time: float | None
    return_code: int | None
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class RunCodeResponse:
    """status: Success or Failed."""

    status: str
    message: str
    compile_result: CommandRunResult | None
    run_result: CommandRunResult | None
    executor_pod_name: str | None
    files: Mapping[str, str]


def parse(raw: Any) -> tuple[Program, Invocation, Limits, Set[str]]:
    """What is to be run, and the names of the limits that are asked for. Raises ValueError."""
    if isinstance(raw, dict):
        known = messages.hints(RunCodeRequest)
        raw = {name: value for name, value in raw.items() if name in known}
    asked = messages.decode(RunCodeRequest, raw)
    stdin = (asked.stdin or "").encode("utf-8", "surrogatepass")
    try:
        files = {name: _bytes(content) for name, content in asked.files.items() if content is not None}
    except ValueError as error:
        raise ValueError(f"field 'files' must hold base64: {error}") from None
    asked_mb = asked.memory_limit_MB
    limited = asked_mb is not None and asked_mb > 0
    limits = Limits(wall_seconds=asked.run_timeout, memory_mb=asked_mb if asked_mb and limited else MEMORY_MB)
    names = {name for name, given in {"wall_seconds": "run_timeout" in raw, "memory_mb": limited}.items() if given}
    return Program(asked.code, asked.language), Invocation(stdin, (), files, asked.fetch_files), limits, names


def response(program: Program, limits: Limits, result: RunResult) -> RunCodeResponse:
    compiled = program.language not in _INTERPRETED
    if result.outcome is Outcome.NOT_COMPILED:
        failed = CommandRunResult("Finished", result.wall_seconds, result.exit_code or 1, "", _text(result.stderr))
        compile_result, run_result = (failed, None) if compiled else (None, failed)
    else:
        compile_result = CommandRunResult("Finished", None, 0, "", "") if compiled else None
        run_result = _run_result(limits, result)
    succeeded = run_result is not None and run_result.return_code == 0
    files = {name: base64.b64encode(content).decode("ascii") for name, content in result.files.items()}
    return RunCodeResponse("Success" if succeeded else "Failed", "", compile_result, run_result, None, files)


def _run_result(limits: Limits, result: RunResult) -> CommandRunResult:
    stdout, stderr = _text(result.stdout), _text(result.stderr)
    if result.outcome is Outcome.TIMED_OUT:
        return CommandRunResult("TimeLimitExceeded", result.wall_seconds, None, stdout, stderr)
    return_code = result.exit_code
    if (reason := _REASONS.get(result.outcome)) is not None:
        return_code = return_code or _KILLED
        separator = "\n" if stderr and not stderr.endswith("\n") else ""
        stderr = f"{stderr}{separator}{reason.format(limits)}\n"
    return CommandRunResult("Finished", result.wall_seconds, return_code, stdout, stderr)


def _bytes(content: str) -> bytes:
    return base64.b64decode("".join(content.split()), validate=True)  # many an encoder breaks lines


def _text(output: bytes) -> str:
    return output.decode("utf-8", "replace")
