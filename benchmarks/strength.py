"""Wrong programs that pass each selection of tests, on real problems:  python -m benchmarks.strength DATA

DATA holds the folders taco, synthetic1 and livecodebench, as the sources read them, and labels/SOURCE.jsonl with
`reference_verdicts`, one for each solution of a row. The wrong programs are

    submissions  solutions labeled wrong
    others       mutants of an accepted solution other than the reference
    unseen       mutants of the reference held out from the selection

The selection `strongest` uses up to 24 mutants of the reference; `blind` is the mean of 20 random selections.
"""

import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from statistics import mean, median
from typing import Any

from benchmarks.record import describe_machine, save_results
from curate.judging import MeteredSandbox, map_with_retries
from curate.problem import Problem, Wrapping
from curate.reading.tables import locate
from curate.stages.verify import unwrap_expected_values
from curate.strength.measurement import StrengthRecord, measure
from curate.strength.mutants import generate_mutants
from rewards.case_selection import order_by_length, select_cases
from sandbox import Judgement, Program, Sandbox, Suite, Verdict

SOURCES = ("taco", "synthetic1", "livecodebench")
BUDGETS = (3, 5, 8, 15)
RANDOM_ORDERS = 20
MAX_REFERENCE_SECONDS = 0.5  # problems with a slower reference are skipped, because their mutants take hours
MIN_TESTS = 5


@dataclass(frozen=True)
class Subject:
    """A problem, its accepted solutions (shortest first), wrong solutions, and the names of its duplicates."""

    problem: Problem
    accepted: tuple[Program, ...]
    wrong: tuple[Program, ...]
    duplicates: tuple[str, ...]
    name: str


def read_subjects(data: Path) -> Iterator[Subject]:
    rows = read_labels(data, "livecodebench_references")
    references: dict[str, tuple[Program, ...]] = {f"livecodebench/{row['id']}": (Program(row["code"]),) for row in rows}
    for source in SOURCES:
        id_key = "row" if source == "taco" else "id"
        labels = {f"{source}/{label[id_key]}": label for label in read_labels(data, source)}
        for problem in import_module(f"curate.sources.{source}").read(locate(str(data / source))):
            if not isinstance(problem, Problem) or len(problem.tests.cases) < MIN_TESTS:
                continue
            label = labels[problem.id]
            if problem.wrapping is Wrapping.UNDECIDED and label.get("wrapped_outputs"):
                problem = replace(problem, tests=unwrap_expected_values(problem.tests))
            solutions: tuple[Program, ...] = problem.solutions or references.get(problem.id, ())
            by_verdict: dict[str, list[Program]] = defaultdict(list)
            is_slow = False
            found = zip(label["reference_verdicts"], label["reference_slowest_s"], solutions, strict=True)
            for verdict, seconds, solution in found:
                is_slow = is_slow or (verdict == "accepted" and (seconds or 0) > MAX_REFERENCE_SECONDS)
                if solution.language == "python":
                    by_verdict[verdict].append(solution)
            accepted = sorted(dict.fromkeys(by_verdict["accepted"]), key=lambda s: (len(s.source), s.source))
            wrong = (solution for v in ("wrong_answer", "runtime_error", "time_limit") for solution in by_verdict[v])
            name = f"{source}:{label['id']}"
            yield Subject(problem, () if is_slow else tuple(accepted), tuple(wrong), tuple(label["duplicate_of"]), name)


def read_labels(data: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (data / "labels" / f"{name}.jsonl").read_text().splitlines()]


def merge_duplicates(repeated: Iterator[Subject]) -> list[Subject]:
    """Return each problem once, together with the solutions of its duplicates."""
    by_name = {subject.name: subject for subject in repeated}
    taken: set[str] = set()
    result = []
    for name, subject in by_name.items():
        if name in taken:
            continue
        family = [subject, *(by_name[name] for name in subject.duplicates if name in by_name)]
        taken |= {member.name for member in family}
        accepted = dict.fromkeys(solution for member in family for solution in member.accepted)
        wrong = dict.fromkeys(solution for member in family for solution in member.wrong)
        result.append(replace(subject, accepted=tuple(accepted), wrong=tuple(wrong)))
    return result


def find_failed_cases(box: Sandbox, pairs: Sequence[tuple[Program, Suite]]) -> list[list[bool]]:
    """Return for each pair whether its program fails each case. Cases beyond the time budget count as failed."""
    judgements: dict[int, Judgement] = dict(box.judge_many(iter(pairs), run_all=True))
    return [
        [case.verdict is not Verdict.ACCEPTED for case in judgement.cases[: judgement.n_cases]]
        + [True] * (judgement.n_cases - len(judgement.cases))
        for _, judgement in sorted(judgements.items())
    ]


def limit_to_reference(suite: Suite, reference: Judgement) -> Suite:
    """Return the suite with limits that are multiples of the reference's time."""
    seconds = [case.cpu_seconds for case in reference.cases]
    limit = min(suite.limits.wall_seconds, 10 * max(seconds) + 0.3)
    limits = replace(suite.limits, wall_seconds=limit, cpu_seconds=limit, budget_seconds=20 * sum(seconds) + 3)
    return replace(suite, limits=limits)


def order_cases(suite: Suite, strength: StrengthRecord) -> dict[str, list[list[int]]]:
    """Return, for each selection of tests, its orders of the case indices: several for "blind", else one."""
    indices = range(len(suite.cases))
    numbered = replace(suite, cases=tuple(replace(c, expected=str(n)) for n, c in enumerate(suite.cases)))
    ours = select_cases(numbered, "strongest", budget=len(indices), strongest=strength.strongest)
    orders = [random.Random(seed).sample(indices, len(indices)) for seed in range(RANDOM_ORDERS)]
    return {
        "first": [list(indices)],
        "longest": [order_by_length(suite)],
        "blind": orders,
        "strongest": [[int(case.expected) for case in ours.cases]],
    }


def count_passing(
    judged: Sequence[tuple[Subject, list[bool]]], strengths: Mapping[str, StrengthRecord]
) -> dict[str, Any]:
    """Count the wrong programs that pass the selected tests, by selection and number of tests."""
    counted = [(subject, failed) for subject, failed in judged if any(failed)]
    passed: dict[str, dict[int, float]] = defaultdict(lambda: dict.fromkeys(BUDGETS, 0.0))
    for subject, failed in counted:
        for name, orders in order_cases(subject.problem.tests, strengths[subject.problem.id]).items():
            for budget in BUDGETS:
                passed[name][budget] += mean(not any(failed[index] for index in order[:budget]) for order in orders)
    return {
        "wrong_programs": len(counted),
        "let_through": {name: {b: round(n, 1) for b, n in by.items()} for name, by in passed.items()},
    }


def main(data: Path) -> None:
    subjects = merge_duplicates(read_subjects(data))
    with Sandbox(seed=0) as box:
        with_reference = [subject for subject in subjects if subject.accepted]
        pairs = ((subject.accepted[0], subject.problem.tests) for subject in with_reference)
        judgements: dict[int, Judgement] = dict(box.judge_many(pairs, run_all=True))
        measured: dict[str, tuple[Subject, Judgement]] = {}
        for index, subject in enumerate(with_reference):
            if judgements[index].accepted:
                problem = replace(subject.problem, reference=subject.accepted[0], verified=True)
                measured[problem.id] = replace(subject, problem=problem), judgements[index]
        print(f"{len(subjects)} problems, {len(with_reference)} with a reference, {len(measured)} measured", flush=True)
        problems = (subject.problem for subject, _ in measured.values())
        strengths = {
            problem.id: strength
            for problem, strength in map_with_retries(problems, lambda p: measure(p, MeteredSandbox(box), seed=0), box)
        }
        records = list(strengths.values())
        strengths |= {s.problem.id: StrengthRecord() for s in subjects if s.problem.id not in strengths}
        groups = collect_wrong_programs(subjects, measured.values())
        results: dict[str, Any] = {}
        for name, programs in groups.items():
            failed = find_failed_cases(box, [(program, suite) for _, program, suite in programs])
            judged = [(subject, row) for (subject, _, _), row in zip(programs, failed, strict=True)]
            results[name] = {"failing": count_passing(judged, strengths)}
            print(name, results[name], flush=True)
    shares = sorted(record.share for record in records if record.share is not None)
    report = {
        "machine": describe_machine(),
        "measured": len(records),
        "mutants": sum(record.n_mutants for record in records),
        "killed": sum(record.n_killed for record in records),
        "equivalent": sum(record.n_equivalent for record in records),
        "share": {
            "median": median(shares),
            "at_least_0.9": sum(share >= 0.9 for share in shares) / len(shares),
            "least": shares[0],
        },
        "wrong_programs": results,
    }
    save_results("strength", report)


def collect_wrong_programs(
    subjects: Iterable[Subject], measured: Iterable[tuple[Subject, Judgement]]
) -> dict[str, list[tuple[Subject, Program, Suite]]]:
    """Return the programs of each kind, with the suites that judge them."""
    groups: dict[str, list[tuple[Subject, Program, Suite]]] = {"submissions": [], "others": [], "unseen": []}
    for subject in subjects:
        suite = replace(subject.problem.tests, limits=replace(subject.problem.tests.limits, budget_seconds=60))
        groups["submissions"] += [(subject, program, suite) for program in subject.wrong]
    for subject, judgement in measured:
        suite = limit_to_reference(subject.problem.tests, judgement)
        make = partial(generate_mutants, suite=suite, n_shown_cases=subject.problem.n_public_tests)
        seen = {mutant.source for mutant in make(subject.accepted[0].source, seed=0)}
        more = make(subject.accepted[0].source, seed=1, max_count=60)
        unseen = islice((mutant for mutant in more if mutant.source not in seen), 12)
        groups["unseen"] += [(subject, Program(mutant.source), suite) for mutant in unseen]
        for other in subject.accepted[1:2]:
            theirs = (mutant for mutant in make(other.source, seed=0) if mutant.kind != "hard_coded")
            groups["others"] += [(subject, Program(mutant.source), suite) for mutant in theirs]
    return groups


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
