"""The number of wrong programs that pass each selection of tests, on real problems with labelled solutions.

    python -m benchmarks.strength DATA

DATA holds the folders taco, synthetic1 and livecodebench, as the sources read them, and labels/SOURCE.jsonl with
`reference_verdicts`, one for each solution of a row. Three kinds of wrong programs are judged on all tests of their
problem. The benchmark counts the failed ones that pass each selection of a few tests:

    submissions      solutions that the labels call wrong
    others' mutants  mutants of an accepted solution other than the reference
    unseen mutants   mutants of the reference that were not used to make the choice

The choice `strongest` uses up to 24 mutants of the reference; `blind` is the mean of 20 random choices.
"""

import json
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import islice
from pathlib import Path
from statistics import mean, median
from typing import Any

from benchmarks.machine import describe
from curate.judging import MeteredSandbox, map_with_retries
from curate.problem import Problem, Wrapping
from curate.reading.tables import locate
from curate.stages.verify import unwrap_expected_values
from curate.strength.measurement import StrengthRecord, measure
from curate.strength.mutants import mutants
from rewards.case_selection import order_by_length, select_cases
from sandbox import Judgement, Program, Sandbox, Suite, Verdict

RESULTS = Path(__file__).parent / "results" / "strength.json"
SOURCES = ("taco", "synthetic1", "livecodebench")
BUDGETS = (1, 2, 3, 5, 8, 15)
DRAWS = 20
SLOWEST = 0.5  # seconds; problems with a slower reference are left out: their mutants take hours
MIN_TESTS = 5


@dataclass(frozen=True)
class Subject:
    """A problem, its accepted solutions (shortest first), its solutions labelled wrong, and the names of its twins."""

    problem: Problem
    accepted: tuple[Program, ...]
    wrong: tuple[Program, ...]
    twins: tuple[str, ...]
    name: str


def subjects(data: Path) -> Iterator[Subject]:
    kept_back: dict[str, tuple[Program, ...]] = {}
    for line in (data / "labels" / "livecodebench_references.jsonl").read_text().splitlines():
        row = json.loads(line)
        kept_back[f"livecodebench/{row['id']}"] = (Program(row["code"]),)
    for source in SOURCES:
        labels = {}
        for line in (data / "labels" / f"{source}.jsonl").read_text().splitlines():
            label = json.loads(line)
            labels[f"{source}/{label['row'] if source == 'taco' else label['id']}"] = label
        for problem in import_module(f"curate.sources.{source}").read(locate(str(data / source))):
            if not isinstance(problem, Problem) or len(problem.tests.cases) < MIN_TESTS:
                continue
            label = labels[problem.id]
            if problem.wrapping is Wrapping.UNDECIDED and label.get("wrapped_outputs"):
                problem = replace(problem, tests=unwrap_expected_values(problem.tests))
            solutions: tuple[Program, ...] = problem.solutions or kept_back.get(problem.id, ())
            by_verdict: dict[str, list[Program]] = defaultdict(list)
            for verdict, solution in zip(label["reference_verdicts"], solutions, strict=True):
                if solution.language == "python":
                    by_verdict[verdict].append(solution)
            slow = any(
                verdict == "accepted" and (seconds or 0) > SLOWEST
                for verdict, seconds in zip(label["reference_verdicts"], label["reference_slowest_s"], strict=True)
            )
            yield Subject(
                problem,
                tuple(sorted(dict.fromkeys(by_verdict["accepted"]), key=lambda s: (len(s.source), s.source)))
                if not slow
                else (),
                tuple(solution for v in ("wrong_answer", "runtime_error", "time_limit") for solution in by_verdict[v]),
                tuple(label["duplicate_of"]),
                f"{source}:{label['id']}",
            )


def distinct(repeated: Iterator[Subject]) -> list[Subject]:
    """Return each problem once, together with the solutions of its twins."""
    by_name = {subject.name: subject for subject in repeated}
    taken: set[str] = set()
    result = []
    for name, subject in by_name.items():
        if name in taken:
            continue
        family = [subject, *(by_name[twin] for twin in subject.twins if twin in by_name)]
        taken |= {member.name for member in family}
        accepted = dict.fromkeys(solution for member in family for solution in member.accepted)
        wrong = dict.fromkeys(solution for member in family for solution in member.wrong)
        result.append(replace(subject, accepted=tuple(accepted), wrong=tuple(wrong)))
    return result


def rows(box: Sandbox, pairs: Sequence[tuple[Program, Suite]]) -> list[list[bool]]:
    """Return for each pair which cases its program fails.

    Cases that did not run because the budget was used up count as failed.
    """
    found: dict[int, Judgement] = dict(box.judge_many(iter(pairs), run_all=True))
    return [
        [case.verdict is not Verdict.ACCEPTED for case in judgement.cases[: judgement.n_cases]]
        + [True] * (judgement.n_cases - len(judgement.cases))
        for _, judgement in sorted(found.items())
    ]


def paced(suite: Suite, pace: Judgement) -> Suite:
    seconds = [case.cpu_seconds for case in pace.cases]
    most = min(suite.limits.wall_seconds, 10 * max(seconds) + 0.3)
    return replace(
        suite,
        limits=replace(suite.limits, wall_seconds=most, cpu_seconds=most, budget_seconds=20 * sum(seconds) + 3),
    )


def orders(suite: Suite, strength: StrengthRecord) -> dict[str, list[list[int]]]:
    """Return for each way of choosing tests its order of the cases, as indices.

    The blind choice has several orders.
    """
    places = range(len(suite.cases))
    numbered = replace(suite, cases=tuple(replace(c, expected=str(n)) for n, c in enumerate(suite.cases)))
    ours = select_cases(numbered, "strongest", budget=len(places), strongest=strength.strongest)
    draws = [random.Random(draw).sample(places, len(places)) for draw in range(DRAWS)]
    return {
        "first": [list(places)],
        "longest": [order_by_length(suite)],
        "blind": draws,
        "strongest": [[int(case.expected) for case in ours.cases]],
    }


def let_through(
    failed: Sequence[tuple[Subject, list[bool]]], strengths: Mapping[str, StrengthRecord], *, more_than: int
) -> dict[str, Any]:
    """Count for each choice the wrong programs that pass the chosen tests."""
    counted = [(s, row) for s, row in failed if any(row) and len(row) > more_than]
    passed: dict[str, dict[int, float]] = defaultdict(lambda: dict.fromkeys(BUDGETS, 0.0))
    for subject, row in counted:
        for name, draws in orders(subject.problem.tests, strengths[subject.problem.id]).items():
            for budget in BUDGETS:
                passed[name][budget] += mean(not any(row[p] for p in places[:budget]) for places in draws)
    return {
        "wrong_programs": len(counted),
        "problems": len({subject.problem.id for subject, _ in counted}),
        "let_through": {name: {b: round(n, 1) for b, n in by.items()} for name, by in passed.items()},
    }


def main(data: Path) -> None:
    everything = distinct(subjects(data))
    with Sandbox(seed=0) as box:
        references = [s for s in everything if s.accepted]
        paces = dict(box.judge_many(((s.accepted[0], s.problem.tests) for s in references), run_all=True))
        measured: list[Subject] = []
        pace_of: dict[str, Judgement] = {}
        for index, subject in enumerate(references):
            if paces[index].accepted:
                pace_of[subject.problem.id] = paces[index]
                measured.append(
                    replace(subject, problem=replace(subject.problem, reference=subject.accepted[0], verified=True))
                )
        print(f"{len(everything)} problems, {len(references)} with a reference, {len(measured)} measured", flush=True)
        started = time.perf_counter()
        strengths: dict[str, StrengthRecord] = {}
        for problem, strength in map_with_retries(
            (subject.problem for subject in measured), lambda p: measure(p, MeteredSandbox(box), seed=0), box
        ):
            strengths[problem.id] = strength
        wall_seconds = time.perf_counter() - started
        print(f"measured in {wall_seconds:.0f} s", flush=True)
        strengths |= {s.problem.id: StrengthRecord() for s in everything if s.problem.id not in strengths}

        groups: dict[str, list[tuple[Subject, Program, Suite]]] = {"submissions": [], "others": [], "unseen": []}
        for subject in everything:
            suite = replace(subject.problem.tests, limits=replace(subject.problem.tests.limits, budget_seconds=60))
            groups["submissions"] += [(subject, program, suite) for program in subject.wrong]
        for subject in measured:
            problem, suite = subject.problem, paced(subject.problem.tests, pace_of[subject.problem.id])
            seen = {
                m.source
                for m in mutants(subject.accepted[0].source, suite, n_shown_cases=problem.n_public_tests, seed=0)
            }
            more = mutants(
                subject.accepted[0].source, suite, n_shown_cases=problem.n_public_tests, seed=1, max_count=60
            )
            unseen = islice((m for m in more if m.source not in seen), 12)
            groups["unseen"] += [(subject, Program(m.source), suite) for m in unseen]
            for other in subject.accepted[1:2]:
                theirs = mutants(other.source, suite, n_shown_cases=problem.n_public_tests, seed=0)
                groups["others"] += [(subject, Program(m.source), suite) for m in theirs if m.kind != "hard_coded"]
        result: dict[str, Any] = {}
        for name, entries in groups.items():
            failed = rows(box, [(program, suite) for _, program, suite in entries])
            judged = [(subject, row) for (subject, _, _), row in zip(entries, failed, strict=True)]
            known = [(subject, row) for subject, row in judged if strengths[subject.problem.id].strongest]
            result[name] = {
                "programs": len(judged),
                "failing": let_through(judged, strengths, more_than=0),
                "failing_where_measured": let_through(known, strengths, more_than=0),
                "failing_where_measured_of_more_than_15_tests": let_through(known, strengths, more_than=15),
            }
            print(name, json.dumps(result[name]), flush=True)
        holes = [
            (subject.accepted[1], replace(subject.problem.tests, cases=(hole,)))
            for subject in measured
            for hole in strengths[subject.problem.id].missed_inputs
            if len(subject.accepted) > 1
        ]
        agreed = sum(judgement.accepted for _, judgement in box.judge_many(iter(holes)))

    found = [strengths[s.problem.id] for s in measured]
    shares = sorted(strength.share for strength in found if strength.share is not None)
    kinds: Counter[str] = Counter()
    for strength in found:
        kinds.update(dict(strength.survivors))
    report = {
        "machine": describe(),
        "problems": len(everything),
        "measured": len(found),
        "mutants": sum(s.n_mutants for s in found),
        "killed": sum(s.n_killed for s in found),
        "equivalent": sum(s.n_equivalent for s in found),
        "survivors": dict(kinds.most_common()),
        "share": {
            "median": median(shares),
            "mean": mean(shares),
            "at_least_0.9": sum(share >= 0.9 for share in shares) / len(shares),
            "tenth_percentile": shares[len(shares) // 10],
            "least": shares[0],
        },
        "cover": {"median": median(len(s.strongest) for s in found), "most": max(len(s.strongest) for s in found)},
        "holes_with_a_second_solution": {"asked": len(holes), "it_gives_the_same_answer": agreed},
        "seconds": {
            "wall": wall_seconds,
            "cpu": sum(s.spent_cpu_seconds for s in found),
            "references_cpu": sum(case.cpu_seconds for pace in pace_of.values() for case in pace.cases),
        },
        "wrong_programs": result,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
