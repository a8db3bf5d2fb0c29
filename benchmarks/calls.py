"""Compare the CPU time of judging call suites with LiveCodeBench's own grader, which runs programs in its own process.

    python -m benchmarks.calls DATA GRADER [ROUNDS]

DATA holds rows of LiveCodeBench in the folder livecodebench, and labels/livecodebench_references.jsonl with a right
program for each. GRADER is a file that has LiveCodeBench's grader as `evaluate_generations`, such as
lighteval/tasks/tasks/lcb/codegen_metrics.py in the wheel of lighteval 0.13. Both judge the same programs on the same
tests, in turns: right programs, and wrong ones derived from them. The CPU time of all processes is measured, without
the start: the import of the grader's modules, and the start of a Sandbox.
"""

import importlib.util
import json
import os
import resource
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.machine import describe
from curate.problem import Problem
from curate.reading.tables import locate
from curate.sources import livecodebench
from curate.strength.mutants import mutants
from sandbox import Case, Program, Sandbox, Suite

RESULTS = Path(__file__).parent / "results" / "calls.json"
WRONG = 2  # programs for each problem
PATIENCE_SECONDS = 60  # the grader's limit of a test; its default, 6 s of wall time, fails on a busy machine


@dataclass(frozen=True, slots=True)
class CallSubmission:
    source: str
    suite: Suite


TRIVIAL = CallSubmission("def f(x): return x", Suite([Case("[1]", "1")], entry_point="f"))


@dataclass(frozen=True, slots=True)
class JudgingCost:
    """The CPU time of judging submissions, and the verdicts."""

    cpu_seconds: float
    right: tuple[bool, ...]


def read(data: Path) -> tuple[list[CallSubmission], list[CallSubmission]]:
    """Return right programs and wrong ones for the call suites."""
    lines = (data / "labels" / "livecodebench_references.jsonl").read_text().splitlines()
    references = {f"livecodebench/{row['id']}": row["code"] for row in map(json.loads, lines)}
    problems = livecodebench.read(locate(str(data / "livecodebench")))
    suites = {
        one.id: one.tests
        for one in problems
        if isinstance(one, Problem) and one.tests.entry_point and one.id in references
    }
    right = [CallSubmission(references[id], suite) for id, suite in suites.items()]
    wrong = [
        CallSubmission(mutant.source, one.suite)
        for one in right
        for mutant in mutants(one.source, one.suite, n_shown_cases=0, seed=1, max_count=WRONG)
    ]
    return right, wrong


def cpu_seconds(act: Callable[[], Sequence[bool]]) -> JudgingCost:
    """Call a function in a forked process, and return the CPU time of it and its children."""
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(source)
        right = act()
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        with os.fdopen(sink, "w") as file:
            json.dump([sum(one.ru_utime + one.ru_stime for one in used), [bool(one) for one in right]], file)
        os._exit(0)
    os.close(sink)
    with os.fdopen(source) as file:
        seconds, right = json.load(file)
    os.waitpid(child, 0)
    return JudgingCost(seconds, tuple(right))


def ours(submissions: Sequence[CallSubmission]) -> list[bool]:
    with Sandbox(workers=1) as box:
        judged = dict(box.judge_many([(Program(one.source), one.suite) for one in submissions]))
        return [judged[place].accepted for place in range(len(submissions))]


def theirs(grader: Any, submissions: Sequence[CallSubmission]) -> list[bool]:
    samples = [{"input_output": json.dumps(_as_row(one.suite))} for one in submissions]
    programs = [[one.source] for one in submissions]
    codes = grader.evaluate_generations(samples, programs, num_process_evaluate=1, timeout=PATIENCE_SECONDS)
    return [all(code > 0 for code in codes[place][0]) for place in range(len(submissions))]


def _as_row(suite: Suite) -> dict[str, Any]:
    inputs = ["\n".join(json.dumps(argument) for argument in json.loads(case.input)) for case in suite.cases]
    return {"inputs": inputs, "outputs": [case.expected for case in suite.cases], "fn_name": suite.entry_point}


def compared(grader: Any, submissions: Sequence[CallSubmission], rounds: int) -> dict[str, Any]:
    seconds: dict[str, list[float]] = {"ours": [], "theirs": [], "start": []}
    for _ in range(rounds):
        started = cpu_seconds(lambda: ours([TRIVIAL]))
        mine, other = cpu_seconds(lambda: ours(submissions)), cpu_seconds(lambda: theirs(grader, submissions))
        seconds["start"].append(started.cpu_seconds)
        seconds["ours"].append(mine.cpu_seconds - started.cpu_seconds)
        seconds["theirs"].append(other.cpu_seconds)
        print(seconds, flush=True)
    return {
        "programs": len(submissions),
        "tests": sum(len(one.suite.cases) for one in submissions),
        "accepted": {"ours": sum(mine.right), "theirs": sum(other.right)},
        "different": sum(a != b for a, b in zip(mine.right, other.right, strict=True)),
        "cpu_seconds": {name: statistics.median(values) for name, values in seconds.items()},
        "all": seconds,
    }


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("grader", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["grader"] = module
    spec.loader.exec_module(module)
    return module


def main(data: Path, grader: Path, rounds: int) -> None:
    right, wrong = read(data)
    module = load(grader)
    parts = {"right": right, "wrong": wrong}
    measured = {name: compared(module, submissions, rounds) for name, submissions in parts.items()}
    result = {"machine": describe(), "rounds": rounds, **measured}
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 3)
