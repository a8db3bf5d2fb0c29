"""Judgements of the many programs of a dataset: CPU time, causes of failures, outputs, and retries."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from curate.errors import CurateError
from curate.json_records import json_key
from sandbox import (
    Case,
    CaseJudgement,
    Judgement,
    Limits,
    Outcome,
    Program,
    RefereeError,
    RunResult,
    Sandbox,
    SandboxError,
    Suite,
    Verdict,
)
from sandbox.concurrency.thread_map import map_results

log = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")

# Consecutive sandbox failures that end a command. The sandbox itself retries lost runs, so these are permanent.
FAILURES_IN_A_ROW = 3


class MeteredSandbox:
    """A wrapper of `Sandbox` that adds up the CPU seconds of its programs, for one problem and one thread.

    Methods raise the same exceptions as those of `Sandbox`, except RefereeError: they return the verdict wrong_answer
    for a solution on which the suite's referee fails.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.spent_seconds = 0.0

    def judge(self, program: Program, suite: Suite, *, run_all: bool = False, keep_outputs: bool = False) -> Judgement:
        try:
            judgement = self._sandbox.judge(program, suite, run_all=run_all, keep_outputs=keep_outputs)
        except RefereeError as error:
            judgement = _build_rejection(error, suite)
        self.spent_seconds += sum_cpu_seconds(judgement)
        return judgement

    def judge_many(self, pairs: Sequence[tuple[Program, Suite]], *, run_all: bool = False) -> list[Judgement]:
        """Judge all pairs in one request, which saves latency on a cluster. Return the judgements in the same order."""
        judgements: dict[int, Judgement] = {}
        for index, result in self._sandbox.judge_many_with_errors(pairs, run_all=run_all):
            if isinstance(result, RefereeError):
                result = _build_rejection(result, pairs[index][1])
            if isinstance(result, Exception):
                raise result
            judgements[index] = result
        self.spent_seconds += sum(map(sum_cpu_seconds, judgements.values()))
        return [judgements[index] for index in range(len(pairs))]

    def run(self, program: Program, stdin: str, limits: Limits) -> RunResult:
        result = self._sandbox.run(program, stdin, limits)
        self.spent_seconds += result.cpu_seconds
        return result


def _build_rejection(error: RefereeError, suite: Suite) -> Judgement:
    case = CaseJudgement(Verdict.WRONG_ANSWER, 0.0, 0.0, 0.0, str(error))
    return Judgement(Verdict.WRONG_ANSWER, (case,), len(suite.cases))


def sum_cpu_seconds(judgement: Judgement) -> float:
    """Return the total CPU seconds of the runs of a judgement."""
    return sum(case.cpu_seconds for case in judgement.cases)


@dataclass(frozen=True, slots=True)
class CaseFailure:
    """A solution's failure on one test.

    solution_index  index of the solution among the candidates of the problem
    test_index      index of the test in the suite
    verdict         any verdict except "accepted"
    detail          the sandbox's short explanation
    """

    solution_index: int = field(metadata=json_key("solution"))
    test_index: int = field(metadata=json_key("test"))
    verdict: Verdict
    detail: str


def find_first_failure(solution: int, judgement: Judgement) -> CaseFailure:
    """Return the first failure in the judgement of a rejected solution."""
    test, case = next(pair for pair in enumerate(judgement.cases) if pair[1].verdict is not Verdict.ACCEPTED)
    return CaseFailure(solution, test, case.verdict, case.detail)


def classify_failure(judgement: Judgement) -> str:
    """Return the cause of a rejection: the verdict, or one of these:

    no_module     the program imports a module missing in the sandbox
    input_ended   the program reads beyond the end of its input, usually because it expects tests of another form
    empty_output  the program prints nothing, usually because it only defines a function
    """
    detail = next((case.detail for case in judgement.cases if case.verdict is not Verdict.ACCEPTED), "")
    last_line = detail.rstrip().rpartition("\n")[2]
    if judgement.verdict is Verdict.RUNTIME_ERROR and last_line.startswith(("ModuleNotFoundError:", "ImportError:")):
        return "no_module"
    if judgement.verdict is Verdict.RUNTIME_ERROR and last_line.startswith("EOFError:"):
        return "input_ended"
    if judgement.verdict is Verdict.WRONG_ANSWER and not detail.strip():
        return "empty_output"
    return judgement.verdict.value


def map_with_retries(
    items: Iterable[Item], work: Callable[[Item], Result], sandbox: Sandbox
) -> Iterator[tuple[Item, Result]]:
    """Yield (item, work(item)) for each item, in order of completion.

    items    any number of items, read only slightly ahead of the results
    work     called concurrently in threads; after a SandboxError, its item is retried at the end
    sandbox  the sandbox that `work` uses; its number of workers limits the concurrent items

    Raises CurateError after FAILURES_IN_A_ROW sandbox failures, and all other exceptions of `work`.
    """

    def call_work(item: Item) -> tuple[Item, Result | SandboxError]:
        try:
            return item, work(item)
        except SandboxError as error:
            return item, error

    failures = 0
    remaining = items
    while True:
        failed: list[Item] = []
        # Two items per worker: one is prepared while the programs of the other run.
        for _, attempted in map_results(call_work, remaining, threads=2 * sandbox.workers):
            if isinstance(attempted, Exception):
                raise attempted
            item, result = attempted
            if not isinstance(result, SandboxError):
                failures = 0
                yield item, result
                continue
            failures += 1
            if failures == FAILURES_IN_A_ROW:
                raise CurateError(
                    f"the sandbox failed {failures} times in a row: {result}. Results up to here are saved. "
                    "Run `curate doctor` to find the cause, then run the same command again to continue."
                ) from result
            log.warning("the sandbox failed, will retry: %s", result)
            failed.append(item)
        if not failed:
            return
        remaining = failed


def collect_outputs(
    program: Program, inputs: Iterable[str], suite: Suite, sandbox: Sandbox | MeteredSandbox
) -> Iterator[Case]:
    """Yield a case for each input on which the program exits with status 0, in order, with the program's output.

    The output is the printed text, the return value of the called function, or the value of the call in a Python test.
    """
    executed = program
    if suite.assertions is not None:
        executed = Program(f"given, source = {suite.assertions.given!r}, {program.source!r}\n{_PRINT_VALUE}")
    elif suite.entry_point is not None:
        executed = Program(f"source, entry_point = {program.source!r}, {suite.entry_point!r}\n{_PRINT_RETURNED}")
    for text in inputs:
        result = sandbox.run(executed, text, suite.limits)
        if result.outcome is Outcome.EXITED and result.exit_code == 0:
            yield Case(text, result.text if suite.assertions is None else result.text.rstrip("\n"))


# A program that prints a function's return value as JSON, with LiveCodeBench's names in scope, as for calls in the
# sandbox.
_PRINT_RETURNED = """
import builtins, io, json, sys
names = {}
for module in (
    "string re datetime collections heapq bisect copy math random statistics itertools functools operator io sys"
    " json builtins typing"
).split():
    exec(f"from {module} import *\\nimport {module}\\n", names)
arguments = json.load(sys.stdin)
stdout, sys.stdout = sys.stdout, io.StringIO()
sys.setrecursionlimit(50_000)
program = {"__name__": "solution", "__builtins__": {**names, **vars(builtins)}}
exec(source, program)
Solution = program.get("Solution")
function = getattr(Solution(), entry_point) if hasattr(Solution, entry_point) else program[entry_point]
print(json.dumps(function(*arguments)), file=stdout)
"""

# A program that prints the value of a call as a literal, or exits with status 1 if the value has no deterministic one.
_PRINT_VALUE = """
import ast, io, sys
sys.setrecursionlimit(50_000)
stdout, sys.stdout = sys.stdout, io.StringIO()
program = {"__name__": "solution"}
exec(given, program)
exec(source, program)
def text(value):
    if type(value) in (set, frozenset):
        inner = "{" + ", ".join(sorted(map(text, value))) + "}" if value else ""
        return "frozenset(" + inner + ")" if type(value) is frozenset else inner or "set()"
    if type(value) in (list, tuple):
        inner = ", ".join(map(text, value))
        return "[" + inner + "]" if type(value) is list else "(" + inner + "," * (len(value) == 1) + ")"
    if type(value) is dict:
        return "{" + ", ".join(text(key) + ": " + text(item) for key, item in value.items()) + "}"
    if type(value) is float and value in (float("inf"), float("-inf")):
        return "1e999" if value > 0 else "-1e999"
    if type(value) not in (int, float, complex, bool, str, bytes, type(None)):
        sys.exit(1)
    ast.literal_eval(repr(value))
    return repr(value)
print(text(eval(sys.stdin.read(), program)), file=stdout)
"""
