"""Probes from the rows of a dataset: references, their mutants, and programs that pass only the examples.

Mutants that survive the tests of their row are skipped, because they reveal a weakness of the dataset.
"""

import ast
import json
import random
import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from curate.dataset.dataset import Dataset
from curate.probe.forms import UnusableTarget
from curate.problem import Problem
from curate.strength.mutants import Mutant, generate_mutants
from sandbox import Judgement, Program, Sandbox, Suite, Verdict
from sandbox.probes.probe import Convention, Group, JudgeProbe, ProbeClass, ProbeProblem, Submissions, format_completion

MAX_ROWS = 20
_MAX_MUTANTS = 8  # per row
_MAX_CHARACTERS = 100_000  # of tests and reference as JSON, because a packet has at most 208 KB
# Without time_limit_exceeded, because a judge on a faster machine may accept such a mutant.
_KILLING_VERDICTS = (Verdict.WRONG_ANSWER, Verdict.RUNTIME_ERROR)


def make_row_classes(location: Path, dataset: Dataset, conventions: Collection[Convention]) -> tuple[ProbeClass, ...]:
    """Return the classes of probes from at most MAX_ROWS random rows.

    location      location of the dataset, for error messages
    conventions   conventions that the target supports

    Raises UnusableTarget if no row has a verified Python reference and one of the conventions, or SandboxError.
    """
    problems = list(islice(_iter_usable_problems(dataset, conventions), MAX_ROWS))
    if not problems:
        raise UnusableTarget(
            f"{location} has no row with a verified Python reference and tests that the target supports "
            f"({', '.join(conventions)}); pass a dataset with such rows, or no --dataset"
        )
    probes: dict[Group, list[JudgeProbe]] = {Group.HONEST: [], Group.WRONG: [], Group.SPECIAL_CASE: []}
    for problem, wrong in _judge_programs(problems):
        probes[Group.HONEST].append(_make_probe(problem, problem.name, problem.reference, right=True))
        for number, mutant in enumerate(wrong, 1):
            group = Group.SPECIAL_CASE if mutant.kind == "hard_coded" else Group.WRONG
            probes[group].append(_make_probe(problem, f"{problem.name}-{number}", mutant.source, right=False))
    return tuple(
        ProbeClass(group, "dataset", why, remedy, "ours", tuple(probes[group]))
        for group, (why, remedy) in _REASONS.items()
    )


_REASONS = {
    Group.HONEST: (
        "The judge refuses the verified reference of a row.",
        "Compare its output with the expected one, and check the time limit and the format of the input.",
    ),
    Group.WRONG: (
        "The judge accepts a mutant of a reference that the tests of its row kill.",
        "Run all tests of the row, and compare every output in full.",
    ),
    Group.SPECIAL_CASE: (
        "The judge accepts a program that hard-codes the outputs of the examples in the statement.",
        "Run tests that are not in the prompt, and give the full reward only if all of them pass.",
    ),
}


def _iter_usable_problems(dataset: Dataset, conventions: Collection[Convention]) -> Iterator[ProbeProblem]:
    positions = list(range(len(dataset)))
    random.Random(0).shuffle(positions)
    for row in map(dataset.load, positions):
        if not row.verified or row.reference is None or row.reference.language != "python":
            continue
        convention = _detect_convention(row)
        is_short = len(json.dumps([row.tests.to_json(), row.reference.source])) <= _MAX_CHARACTERS
        if row.tests.referee is None and convention in conventions and is_short:
            name = re.sub(r"[^\w.-]+", "-", row.id)
            yield ProbeProblem(name, convention, row.tests, row.reference.source, row.n_public_tests)


def _detect_convention(row: Problem) -> Convention:
    if row.tests.assertions is not None:
        return Convention.ASSERTS
    if row.tests.entry_point is None:
        return Convention.STDIN
    assert row.reference is not None
    try:
        statements = ast.parse(row.reference.source).body
    # The sandbox may run a newer Python than this process.
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        statements = []
    is_method = any(isinstance(each, ast.ClassDef) and each.name == "Solution" for each in statements)
    return Convention.METHOD if is_method else Convention.CALL


def _judge_programs(problems: list[ProbeProblem]) -> Iterator[tuple[ProbeProblem, list[Mutant]]]:
    """Judge references and mutants in the sandbox.

    Return the problems whose reference passes a comparison by tokens, each with its killed mutants.
    """
    programs: list[tuple[ProbeProblem, Mutant | None]] = []
    for problem in problems:
        mutants = generate_mutants(
            problem.reference, problem.suite, n_shown_cases=problem.n_shown_cases, seed=0, max_count=_MAX_MUTANTS
        )
        programs += [(problem, mutant) for mutant in (None, *mutants)]
    pairs = [
        (Program(problem.reference), _replace_checker(problem.suite))
        if mutant is None
        else (Program(mutant.source), problem.suite)
        for problem, mutant in programs
    ]
    with Sandbox() as box:
        judgements = dict(box.judge_many_with_errors(pairs))
    wrong: dict[str, list[Mutant]] = {}
    for number, (problem, mutant) in enumerate(programs):
        judgement = judgements[number]
        if not isinstance(judgement, Judgement):
            raise judgement
        if mutant is None and judgement.accepted:
            wrong[problem.name] = []
        elif mutant is not None and problem.name in wrong and judgement.verdict in _KILLING_VERDICTS:
            wrong[problem.name].append(mutant)
    return ((problem, wrong[problem.name]) for problem in problems if problem.name in wrong)


def _replace_checker(suite: Suite) -> Suite:
    """Replace the checker by token comparison, because no target's signature has a parameter for a checker."""
    return suite if suite.assertions is not None else replace(suite, checker="tokens")


def _make_probe(problem: ProbeProblem, name: str, source: str, *, right: bool) -> JudgeProbe:
    submissions = Submissions(problem, (format_completion(source),))
    return JudgeProbe(name, (problem.convention,), lambda _: submissions, is_correct=right, is_partial=not right)
