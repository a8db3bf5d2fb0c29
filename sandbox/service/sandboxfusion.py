"""The requests and responses of SandboxFusion for POST /run_code, compatible with its clients, such as verl.

As in SandboxFusion's server:
    - a program that exited, with any return code, is `Finished`; one that timed out is `TimeLimitExceeded`, and has
      no return code.
    - a Python program that does not compile is a run with return code 1.
    - only a memory limit above zero applies, and unknown fields are ignored.
Unlike SandboxFusion's server:
    - stdout is never truncated; a run with too much output fails. Invalid UTF-8 is replaced.
    - a run that exceeds its memory or output limit, or makes a forbidden system call, has a nonzero return code. The
      last line of stderr is the reason.
    - compile_timeout is ignored, since the compiler has its own limits.
    - if the sandbox fails, the request gets 504, which verl and the PyPI client retry. In verl, a 200 with
      `SandboxError` would count as a failure of the program.
"""

import base64
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from sandbox import json_codec
from sandbox.program import BadLimit, Invocation, Limits, Outcome, Program, RunResult

_LIMIT_FIELDS = {"wall_seconds": "run_timeout", "memory_mb": "memory_limit_MB"}  # limit -> its field
_DEFAULT_MEMORY_MB = 1024  # as in verl
_KILLED = -9  # return code of a run that exceeded a limit but has exit status 0
_INTERPRETED = {"python"}
_REASONS = {
    Outcome.OUT_OF_MEMORY: "memory limit of {0.memory_mb} MB exceeded",
    Outcome.OUTPUT_LIMIT: "output limit of {0.output_kb} KB exceeded",
    Outcome.VIOLATION: "forbidden system call",
}


class RunCodeRequest(Struct, frozen=True):
    """A program to run. files: name -> content in base64. The timeouts are in seconds."""

    code: str
    language: str
    stdin: str | None = None
    run_timeout: float = 10
    compile_timeout: float = 10
    memory_limit_MB: int | None = None
    files: Mapping[str, str | None] = {}
    fetch_files: tuple[str, ...] = ()


class CommandRunResult(Struct, frozen=True):
    """The run of a program. status: Finished or TimeLimitExceeded."""

    status: str
    execution_time: float | None
    return_code: int | None
    stdout: str
    stderr: str


class RunCodeResponse(Struct, frozen=True):
    """The response to a RunCodeRequest. status: Success or Failed."""

    status: str
    message: str
    compile_result: CommandRunResult | None
    run_result: CommandRunResult | None
    executor_pod_name: str | None
    files: Mapping[str, str]


def parse(raw: dict[str, Any]) -> tuple[Program, Invocation, Limits, Mapping[str, str]]:
    """Return the program, its invocation and limits, and the explicit limits: limit -> field. Raises ValueError."""
    request = json_codec.decode(RunCodeRequest, raw)
    stdin = (request.stdin or "").encode("utf-8", "surrogatepass")
    try:
        files = {name: _decode_base64(content) for name, content in request.files.items() if content is not None}
    except ValueError as error:
        raise ValueError(f"field 'files' must hold base64: {error}") from None
    memory_mb = max(0, request.memory_limit_MB or 0)
    is_explicit = {"wall_seconds": "run_timeout" in raw, "memory_mb": memory_mb > 0}
    requested = {limit: field for limit, field in _LIMIT_FIELDS.items() if is_explicit[limit]}
    try:
        limits = Limits(wall_seconds=request.run_timeout, memory_mb=memory_mb or _DEFAULT_MEMORY_MB)
    except BadLimit as error:
        raise error.with_field_names(_LIMIT_FIELDS) from None
    return Program(request.code, request.language), Invocation(stdin, (), files, request.fetch_files), limits, requested


def make_response(program: Program, limits: Limits, result: RunResult) -> RunCodeResponse:
    """Return the response for a run, as in SandboxFusion."""
    compiled = program.language not in _INTERPRETED
    if result.outcome is Outcome.NOT_COMPILED:
        failed = CommandRunResult(
            "Finished", result.wall_seconds, result.exit_code or 1, "", _decode_output(result.stderr)
        )
        compile_result, run_result = (failed, None) if compiled else (None, failed)
    else:
        compile_result = CommandRunResult("Finished", None, 0, "", "") if compiled else None
        run_result = _make_run_result(limits, result)
    succeeded = run_result is not None and run_result.return_code == 0
    files = {name: base64.b64encode(content).decode("ascii") for name, content in result.files.items()}
    return RunCodeResponse("Success" if succeeded else "Failed", "", compile_result, run_result, None, files)


def _make_run_result(limits: Limits, result: RunResult) -> CommandRunResult:
    stdout, stderr = _decode_output(result.stdout), _decode_output(result.stderr)
    if result.outcome is Outcome.TIMED_OUT:
        return CommandRunResult("TimeLimitExceeded", result.wall_seconds, None, stdout, stderr)
    return_code = result.exit_code
    if (reason := _REASONS.get(result.outcome)) is not None:
        return_code = return_code or _KILLED
        separator = "\n" if stderr and not stderr.endswith("\n") else ""
        stderr = f"{stderr}{separator}{reason.format(limits)}\n"
    return CommandRunResult("Finished", result.wall_seconds, return_code, stdout, stderr)


def _decode_base64(content: str) -> bytes:
    return base64.b64decode("".join(content.split()), validate=True)  # many encoders wrap lines


def _decode_output(output: bytes) -> str:
    return output.decode("utf-8", "replace")
