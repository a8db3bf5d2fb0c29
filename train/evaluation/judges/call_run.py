"""Run a program on inputs in the sandbox, and read what it claims to have returned.

All calls of a run share a process, as in EvalPlus. The process knows the inputs and no expected value, so a program
gains nothing by what it keeps between the calls. The limit of each call is a timer of the process itself, in CPU time,
so a busy machine makes nothing too slow. A program that switches the timer off is still bound by the limit of the run,
which the sandbox keeps.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from signal import SIGPROF

from sandbox import Limits, Outcome, Program, RunResult, Sandbox, Verdict
from train.evaluation.judges import sandbox_runner

# The first of these is tried first: runs at once have to fit into the memory of the machine. The last is EvalPlus's.
MEMORY_MB = (1024, 4096)
MAX_SECONDS = 60.0  # CPU time of all calls together, as in EvalPlus
_EXTRA_SECONDS = 2.0  # for the start, and for writing down what was returned
_OUTPUT_KB = 64 * 1024
_ENDS = {
    Outcome.TIMED_OUT: Verdict.TIME_LIMIT,
    Outcome.OUT_OF_MEMORY: Verdict.MEMORY_LIMIT,
    Outcome.OUTPUT_LIMIT: Verdict.OUTPUT_LIMIT,
    Outcome.VIOLATION: Verdict.SANDBOX_VIOLATION,
}
_FAILURES = {b"e compile": Verdict.COMPILE_ERROR, b"e MemoryError": Verdict.MEMORY_LIMIT}


@dataclass(frozen=True, slots=True)
class CallOutput:
    """What a call is claimed to have returned.

    text         encoded as JSON (see sandbox_runner.py), or if it is large, a digest
    is_digest    whether the text is a digest
    cpu_seconds  CPU time of the call; a claim, too
    """

    text: str
    is_digest: bool
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class CallResults:
    """What became of the calls.

    outputs  of the first calls, up to one that failed
    verdict  why there are no more; ACCEPTED if there is an output for each input
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

    programs     texts that are executed one after the other, and then define the function
    entry_point  the function
    inputs       lists of arguments, each as the JSON of its encoding
    limits       CPU seconds of each call; 0: no limit
    max_seconds  the most CPU seconds of all calls together

    Raises SandboxError.
    """
    head = json.dumps({"programs": list(programs), "entry_point": entry_point, "limits": list(limits)})
    request = f'{head[:-1]}, "inputs": [{", ".join(inputs)}]}}'
    seconds = min(max_seconds, sum(limits) or max_seconds) + _EXTRA_SECONDS
    for memory_mb in MEMORY_MB:
        allowed = Limits(wall_seconds=seconds, cpu_seconds=seconds, memory_mb=memory_mb, output_kb=_OUTPUT_KB)
        calls = _read(sandbox.run(_inside(), request, allowed), len(inputs))
        if calls.verdict is not Verdict.MEMORY_LIMIT:
            break
    return calls


@cache
def _inside() -> Program:
    return Program(Path(sandbox_runner.__file__).read_text(encoding="utf-8"))


def _read(result: RunResult, n_inputs: int) -> CallResults:
    *lines, _ = result.stdout.split(b"\n", n_inputs)  # a last line that was not written to its end claims nothing
    outputs: list[CallOutput] = []
    for line in lines:
        output = _output(line)
        if output is None:
            return CallResults(tuple(outputs), _end(line, result))
        outputs.append(output)
    return CallResults(tuple(outputs), Verdict.ACCEPTED if len(outputs) == n_inputs else _end(b"", result))


def _output(line: bytes) -> CallOutput | None:
    """Return the output that a line claims; None if it claims none."""
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


def _end(line: bytes, result: RunResult) -> Verdict:
    """Return why a run has no further output: its process was ended, or its last line says why."""
    if result.outcome in _ENDS:
        return _ENDS[result.outcome]
    if result.outcome is Outcome.SIGNALLED and result.exit_code == -SIGPROF:
        return Verdict.TIME_LIMIT
    return _FAILURES.get(line, Verdict.RUNTIME_ERROR)
