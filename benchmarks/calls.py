"""CPU time of judging call suites, compared with LiveCodeBench's grader:  python -m benchmarks.calls DATA GRADER

DATA holds rows of LiveCodeBench in the folder livecodebench, and labels/livecodebench_references.jsonl with a right
program for each. GRADER is a file that has LiveCodeBench's grader as `evaluate_generations`, such as
lighteval/tasks/tasks/lcb/codegen_metrics.py in the wheel of lighteval 0.13. Both judge right programs and mutants of
them, in turns. Their CPU time excludes the start: the import of the grader's modules, and the start of a Sandbox.
"""

import importlib.util
import json
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.record import describe_machine, save_results
from curate.problem import Problem
from curate.reading.tables import locate
from curate.sources import livecodebench
from curate.strength.mutants import generate_mutants
from sandbox import Case, Program, Sandbox, Suite

ROUNDS = 3
WRONG_PROGRAMS = 2  # for each problem
GRADER_SECONDS = 60  # the grader's limit of a test; its default, 6 s of wall time, fails on a busy machine

Submission = tuple[Program, Suite]
TRIVIAL = Program("def f(x): return x"), Suite([Case("[1]", "1")], entry_point="f")


def read_submissions(data: Path) -> tuple[list[Submission], list[Submission]]:
    """Return right and wrong programs with their call suites."""
    lines = (data / "labels" / "livecodebench_references.jsonl").read_text().splitlines()
    references = {f"livecodebench/{row['id']}": row["code"] for row in map(json.loads, lines)}
    problems = livecodebench.read(locate(str(data / "livecodebench")))
    right = [
        (Program(references[problem.id]), problem.tests)
        for problem in problems
        if isinstance(problem, Problem) and problem.tests.entry_point and problem.id in references
    ]
    wrong = [
        (Program(mutant.source), suite)
        for program, suite in right
        for mutant in generate_mutants(program.source, suite, n_shown_cases=0, seed=1, max_count=WRONG_PROGRAMS)
    ]
    return right, wrong


def measure_cost(judge: Callable[[], Sequence[bool]]) -> tuple[float, list[bool]]:
    """Call a function in a forked process; return the CPU seconds of it and its children, and its result."""
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(source)
        accepted = judge()
        with os.fdopen(sink, "w") as file:
            json.dump([sum(os.times()[:4]), accepted], file)
        os._exit(0)
    os.close(sink)
    with os.fdopen(source) as file:
        seconds, accepted = json.load(file)
    os.waitpid(child, 0)
    return seconds, accepted


def judge_with_sandbox(submissions: Sequence[Submission]) -> list[bool]:
    with Sandbox(workers=1) as box:
        judged = dict(box.judge_many(submissions))
        return [judged[index].accepted for index in range(len(submissions))]


def judge_with_grader(grader: Any, submissions: Sequence[Submission]) -> list[bool]:
    samples = [{"input_output": json.dumps(convert_suite(suite))} for _, suite in submissions]
    programs = [[program.source] for program, _ in submissions]
    codes = grader.evaluate_generations(samples, programs, num_process_evaluate=1, timeout=GRADER_SECONDS)
    return [bool(all(code > 0 for code in codes[index][0])) for index in range(len(submissions))]


def convert_suite(suite: Suite) -> dict[str, Any]:
    inputs = ["\n".join(json.dumps(argument) for argument in json.loads(case.input)) for case in suite.cases]
    return {"inputs": inputs, "outputs": [case.expected for case in suite.cases], "fn_name": suite.entry_point}


def compare(grader: Any, submissions: Sequence[Submission]) -> dict[str, Any]:
    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(ROUNDS):
        start, _ = measure_cost(lambda: judge_with_sandbox([TRIVIAL]))
        our_seconds, ours = measure_cost(lambda: judge_with_sandbox(submissions))
        their_seconds, theirs = measure_cost(lambda: judge_with_grader(grader, submissions))
        seconds["ours"].append(our_seconds - start)
        seconds["theirs"].append(their_seconds)
        print(seconds, flush=True)
    return {
        "programs": len(submissions),
        "tests": sum(len(suite.cases) for _, suite in submissions),
        "different": sum(a != b for a, b in zip(ours, theirs, strict=True)),
        "cpu_seconds": {name: statistics.median(values) for name, values in seconds.items()},
    }


def import_file(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("grader", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["grader"] = module
    spec.loader.exec_module(module)
    return module


def main(data: Path, grader: Path) -> None:
    right, wrong = read_submissions(data)
    module = import_file(grader)
    results = {name: compare(module, programs) for name, programs in (("right", right), ("wrong", wrong))}
    save_results("calls", {"machine": describe_machine(), "rounds": ROUNDS, **results})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
