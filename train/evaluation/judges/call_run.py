"""Calls of a function in the sandbox, with the return values that its process claims, and expected outputs.

All calls of a run share a process, as in EvalPlus. It holds no expected values, so a program gains nothing from state
between calls. A CPU timer of the process limits each call; if a program disables it, the sandbox's limit still applies.

A reference's outputs are cached in the user's cache folder, under a digest of the reference, the runner and the version
of Python.
"""

import gzip
import hashlib
import json
import logging
import os
import platform
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from signal import SIGPROF

from curate.reading.values import shorten
from sandbox import Limits, Outcome, Program, RunResult, Sandbox, Verdict
from sandbox.concurrency.single_flight import SingleFlightCache
from train.evaluation.judges import sandbox_runner
from train.evaluation.judges.judge import NoVerdictError

log = logging.getLogger(__name__)

# Memory limits, tried in order: concurrent runs must fit into memory, but EvalPlus allows 4 GB.
MEMORY_MB = (1024, 4096)
MAX_SECONDS = 60.0  # CPU time limit of all calls together, as in EvalPlus
_MAX_REFERENCE_SECONDS = 600.0  # CPU time limit of a reference on all inputs; the slowest takes some seconds
_EXTRA_SECONDS = 2.0  # additional time for startup, and for writing return values
_OUTPUT_KB = 64 * 1024
_CACHE_SIZE = 64  # number of references whose outputs stay in memory
_VERDICT_OF_OUTCOME = {
    Outcome.TIMED_OUT: Verdict.TIME_LIMIT,
    Outcome.OUT_OF_MEMORY: Verdict.MEMORY_LIMIT,
    Outcome.OUTPUT_LIMIT: Verdict.OUTPUT_LIMIT,
    Outcome.VIOLATION: Verdict.SANDBOX_VIOLATION,
}
_FAILURES = {b"e compile": Verdict.COMPILE_ERROR, b"e MemoryError": Verdict.MEMORY_LIMIT}


@dataclass(frozen=True, slots=True)
class CallOutput:
    """The claimed return value of a call.

    text         JSON encoding (see sandbox_runner.py) or, if large, a digest
    cpu_seconds  claimed CPU time of the call
    """

    text: str
    is_digest: bool
    cpu_seconds: float

    @property
    def digest(self) -> str:
        """Return the digest of the value; UNEQUAL if it is not plain data, or the encoding is invalid."""
        if self.is_digest:
            return self.text
        try:
            return sandbox_runner.digest(sandbox_runner.decode(json.loads(self.text), untrusted=True))
        except Exception:  # a hostile program may send any text
            return sandbox_runner.UNEQUAL


def are_outputs_equal(actual: CallOutput, expected: CallOutput) -> bool:
    """Return whether two outputs are equal (==), without tolerance."""
    return actual.digest == expected.digest != sandbox_runner.UNEQUAL


@dataclass(frozen=True, slots=True)
class CallResults:
    """The results of successive calls.

    outputs  outputs of the calls before the first failure
    verdict  verdict of the first failure; ACCEPTED if all calls returned
    """

    outputs: tuple[CallOutput, ...]
    verdict: Verdict


def run_calls(
    programs: Sequence[str],
    entry_point: str,
    inputs: Sequence[str],
    limits: Sequence[float],
    sandbox: Sandbox,
    *,
    max_seconds: float = MAX_SECONDS,
) -> CallResults:
    """Call a function once for each input.

    programs     source texts, executed in order, that define the function
    inputs       argument list of each call, as JSON (see sandbox_runner.encode)
    limits       CPU time limit of each call in seconds; 0: no limit
    max_seconds  CPU time limit of all calls together

    Raises SandboxError.
    """
    head = json.dumps({"programs": list(programs), "entry_point": entry_point, "limits": list(limits)})
    request = f'{head[:-1]}, "inputs": [{", ".join(inputs)}]}}'
    seconds = min(max_seconds, sum(limits) or max_seconds) + _EXTRA_SECONDS
    for memory_mb in MEMORY_MB:
        run_limits = Limits(wall_seconds=seconds, cpu_seconds=seconds, memory_mb=memory_mb, output_kb=_OUTPUT_KB)
        calls = _parse_results(sandbox.run(Program(_read_runner_source()), request, run_limits), len(inputs))
        if calls.verdict is not Verdict.MEMORY_LIMIT:
            break
    return calls


@cache
def _read_runner_source() -> str:
    return Path(sandbox_runner.__file__).read_text(encoding="utf-8")


def _parse_results(result: RunResult, n_inputs: int) -> CallResults:
    *lines, _ = result.stdout.split(b"\n", n_inputs)  # drop an incomplete last line
    outputs: list[CallOutput] = []
    for line in lines:
        output = _parse_output(line)
        if output is None:
            return CallResults(tuple(outputs), _classify_failure(line, result))
        outputs.append(output)
    return CallResults(tuple(outputs), Verdict.ACCEPTED if len(outputs) == n_inputs else _classify_failure(b"", result))


def _parse_output(line: bytes) -> CallOutput | None:
    if len(line) > sandbox_runner.MAX_JSON_CHARS + 100:
        return None
    kind, _, rest = line.decode("utf-8", "replace").partition(" ")
    seconds, _, text = rest.partition(" ")
    if kind not in ("v", "d") or not text:
        return None
    try:
        return CallOutput(text, kind == "d", float(seconds))
    except ValueError:
        return None


def _classify_failure(line: bytes, result: RunResult) -> Verdict:
    """Determine the verdict for a run that ended early, from the sandbox's outcome or the error line."""
    if result.outcome in _VERDICT_OF_OUTCOME:
        return _VERDICT_OF_OUTCOME[result.outcome]
    if result.outcome is Outcome.SIGNALLED and result.exit_code == -SIGPROF:
        return Verdict.TIME_LIMIT
    return _FAILURES.get(line, Verdict.RUNTIME_ERROR)


@dataclass(frozen=True)
class Reference:
    """A correct program, and the inputs of its calls.

    inputs: argument list of each call, as JSON (see sandbox_runner.encode)
    """

    program: str
    entry_point: str
    inputs: tuple[str, ...]

    @cached_property
    def digest(self) -> str:
        """Return the digest of the program and its inputs."""
        return _compute_sha256(json.dumps([self.program, self.entry_point, *self.inputs]))


_expected_outputs: SingleFlightCache[tuple[CallOutput, ...]] = SingleFlightCache(_CACHE_SIZE)


def compute_expected_outputs(reference: Reference, sandbox: Sandbox) -> tuple[CallOutput, ...]:
    """Return the outputs of the reference. Raises SandboxError, and NoVerdictError if the reference fails."""
    return _expected_outputs.get(reference.digest, lambda: _load_or_compute(reference, sandbox), lambda outputs: True)


def _load_or_compute(reference: Reference, sandbox: Sandbox) -> tuple[CallOutput, ...]:
    path = _get_cache_folder() / f"{reference.digest[:32]}-{_compute_version_digest()}.json.gz"
    outputs = _read_cache(path, len(reference.inputs))
    if outputs is not None:
        return outputs
    no_limits = [0.0] * len(reference.inputs)
    calls = run_calls(
        [reference.program],
        reference.entry_point,
        reference.inputs,
        no_limits,
        sandbox,
        max_seconds=_MAX_REFERENCE_SECONDS,
    )
    if calls.verdict is not Verdict.ACCEPTED:
        raise NoVerdictError(f"its reference fails on input {len(calls.outputs)}: {calls.verdict.value}")
    _write_cache(path, calls.outputs)
    return calls.outputs


def _get_cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "curate" / "expected-outputs"


@cache
def _compute_version_digest() -> str:
    return _compute_sha256(_read_runner_source() + platform.python_version())[:12]


def _compute_sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _read_cache(path: Path, n_inputs: int) -> tuple[CallOutput, ...] | None:
    try:
        with gzip.open(path, "rt", encoding="ascii") as file:
            outputs = tuple(CallOutput(text, large, seconds) for text, large, seconds in json.load(file))
    except (OSError, EOFError, ValueError, TypeError):
        return None
    return outputs if len(outputs) == n_inputs else None


def _write_cache(path: Path, outputs: Sequence[CallOutput]) -> None:
    content = json.dumps([[output.text, output.is_digest, output.cpu_seconds] for output in outputs])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(gzip.compress(content.encode("ascii"), compresslevel=1))
        os.replace(file.name, path)
    except OSError as error:
        log.warning("expected outputs are not cached in %s: %s", path.parent, shorten(error))
