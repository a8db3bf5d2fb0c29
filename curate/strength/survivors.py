"""Distinguish surviving mutants that are wrong from those that may be equivalent to the reference."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from curate.strength.extra_inputs import extra_inputs
from curate.strength.mutation import Mutant
from curate.verification.metered_sandbox import MeteredSandbox
from curate.verification.program_outputs import collect_outputs
from sandbox import Case, Program, Suite, Verdict


def classify_survivors(
    alive: Sequence[Mutant], reference: Program, suite: Suite, sandbox: MeteredSandbox, *, seed: int
) -> tuple[list[Mutant], list[Case]]:
    """Return the mutants that differ from the reference on a further input, and for each of them such an input.

    If no further input can be made, all mutants are returned, and no inputs.
    """
    cases = _confirmed_answers(reference, suite, sandbox, seed=seed)
    if not cases:
        return list(alive), []
    further = replace(suite, cases=tuple(cases))
    wrong: list[Mutant] = []
    telling: list[Case] = []
    judgements = sandbox.judge_many([(Program(mutant.source), further) for mutant in alive])
    for mutant, judgement in zip(alive, judgements, strict=True):
        if not judgement.accepted:
            wrong.append(mutant)
            telling.append(cases[len(judgement.cases) - 1])
    return wrong, telling


def _confirmed_answers(reference: Program, suite: Suite, sandbox: MeteredSandbox, *, seed: int) -> list[Case]:
    """Return those further inputs, with the reference's answers, for which a second run confirms the answer.

    An answer that is not confirmed cannot show that a mutant is wrong.
    """
    inputs = extra_inputs(suite, seed=seed)
    cases = list(collect_outputs(reference, inputs, suite, partial(sandbox.run, limits=suite.limits)))
    if not cases:
        return []
    again = sandbox.judge(reference, replace(suite, cases=tuple(cases)), run_all=True)
    return [case for case, judged in zip(cases, again.cases, strict=False) if judged.verdict is Verdict.ACCEPTED]
