"""Hostile programs get nothing, and the sandbox lives on.

Each file in attacks/ begins with `# expect:` and the verdicts that show that the attack failed. The program reads "1"
or "2" and prints ESCAPED if it got what it wanted, or it defines attack(x), which then returns "ESCAPED". ESCAPED is
the expected answer, so `accepted` would be an escape. Programs called expected_* look for the expected output itself, a
secret that is written nowhere else. Programs called message_* run twice, and the second run must learn nothing from
the first.
"""

import json
import secrets
from pathlib import Path

import pytest

from sandbox import Case, Limits, Program, Sandbox, Suite

ATTACKS = sorted(Path(__file__).parent.joinpath("attacks").glob("*.py"))
LIMITS = Limits(wall_seconds=5, memory_mb=256)
SHORT = Limits(wall_seconds=1, memory_mb=256)
HARMLESS = Suite([Case("3 4\n", "7\n")])


def suite_for(attack: str, source: str) -> Suite:
    answer = f"SECRET{secrets.token_hex(16)}" if attack.startswith("expected_") else "ESCAPED"
    limits = SHORT if attack.startswith("late_") else LIMITS
    if "def attack(" in source:
        return Suite([Case("[1]", json.dumps(answer))], entry_point="attack", checker="tokens", limits=limits)
    inputs = "12" if attack.startswith("message_") else "1"
    return Suite([Case(f"{number}\n", f"{answer}\n") for number in inputs], checker="tokens", limits=limits)


@pytest.mark.parametrize("path", ATTACKS, ids=lambda path: path.stem)
def test_an_attack_fails_and_the_sandbox_lives_on(box: Sandbox, path: Path) -> None:
    source = path.read_text()
    expected = set(source.partition("\n")[0].removeprefix("# expect: ").split(" or "))
    suite = suite_for(path.stem, source)
    judgement = box.judge(Program(source), suite, run_all=True)
    assert {case.verdict.value for case in judgement.cases} <= expected, judgement
    assert len(judgement.cases) == len(suite.cases)
    assert box.judge(Program("print(sum(map(int, input().split())))"), HARMLESS).accepted


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


@pytest.mark.parametrize("source", BOMBS.values(), ids=BOMBS)
def test_a_program_that_overwhelms_the_compiler_is_only_a_bad_program(box: Sandbox, source: str) -> None:
    assert box.judge(Program(source), Suite([Case("", "ESCAPED")], limits=LIMITS)).verdict.value in REFUSED
    assert box.judge(Program("print(sum(map(int, input().split())))"), HARMLESS).accepted


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
