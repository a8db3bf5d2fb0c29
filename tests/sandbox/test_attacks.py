"""Hostile programs get nothing, and the sandbox lives on."""

from batch import ADDS, HARMLESS, judged
from hostile import LIMITS, attacks, verdicts_of_failure

from sandbox import Case, Judgement, Program, Sandbox, Suite

ATTACKS = attacks("python")
# Those that only end at a limit; one of each kind is quick.
LONG = {
    "call_returns_a_shared_bomb",
    "kernel_memory_in_locks",
    "memory_in_children",
    "memory_of_its_parts_again_and_again",
    *(name for name in ATTACKS if name.startswith("late_") and name != "late_signals_are_blocked"),
}


@judged(ATTACKS, quick=ATTACKS.keys() - LONG, run_all=True, then=(ADDS, HARMLESS))
def test_an_attack_fails_and_the_sandbox_lives_on(name: str, judgement: Judgement) -> None:
    program, suite = ATTACKS[name]
    assert {case.verdict.value for case in judgement.cases} <= verdicts_of_failure(program), judgement
    assert len(judgement.cases) == len(suite.cases)


REFUSED = {"compile_error", "runtime_error", "wrong_answer", "memory_limit"}
BOMBS = {
    "unary": "x = " + "-" * 20_000 + "1",
    "parentheses": "x = " + "(" * 5_000 + ")" * 5_000,
    "lambdas": "x = " + "lambda:" * 5_000 + "1",
    "attributes": "x" + ".a" * 100_000,
    "comparisons": "1" + "<1" * 100_000,
    "repeated text": "x = " + "(" * 20 + "'a' * 4096" + ") * 4096" * 20,
    "blocks": "".join(" " * level + "if 1:\n" for level in range(120)) + " " * 120 + "pass",
    "nul": "print(7)\0",
    "lone surrogate": "print('\ud800')",
    "unknown encoding": "# coding: nothing\nprint(7)",
}


@judged(
    {name: (Program(source), Suite([Case("", "ESCAPED")], limits=LIMITS)) for name, source in BOMBS.items()},
    then=(ADDS, HARMLESS),
)
def test_a_program_that_overwhelms_the_compiler_is_only_a_bad_program(judgement: Judgement) -> None:
    assert judgement.verdict.value in REFUSED


def test_random_numbers_differ_from_test_to_test(box: Sandbox) -> None:
    dice = Program("import os, random\nprint(random.getrandbits(64), hash(os.urandom(8)))")
    assert len({box.run(dice).stdout for _ in range(6)}) == 6


def test_runs_with_a_seed_repeat() -> None:
    dice = Program("import random\nprint(random.getrandbits(64), hash('text'))")
    seen = set()
    for _ in range(2):
        with Sandbox(workers=1, seed=7) as seeded:
            seen |= {seeded.run(dice).stdout for _ in range(2)}
    assert len(seen) == 1
