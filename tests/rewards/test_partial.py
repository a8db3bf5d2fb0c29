"""Shares of tests passed."""

import pytest
from answers import program, say

from rewards.code import CodeReward
from rewards.partial import PartialReward
from rewards.reward import Task
from sandbox import Case, Sandbox, Suite

NO = Suite([Case(f"{n}\n", "YES\n" if n % 5 == 0 else "NO\n") for n in range(10)])


@pytest.mark.parametrize(
    ("source", "share", "verdict"),
    [
        ("print('YES' if int(input()) % 5 == 0 else 'NO')", 1.0, "accepted"),
        ("print('NO')", 0.8, "wrong_answer"),
        ("print('YES')", 0.2, "wrong_answer"),
        ("1 / 0", 0.0, "runtime_error"),
        ("print(", 0.0, "compile_error"),
    ],
)
def test_the_share_is_of_all_tests_and_not_of_those_before_the_first_failure(box, source, share, verdict):
    scored = PartialReward(box, select="all")(program(source), Task(tests=NO))
    assert (scored.value, scored.verdict) == (pytest.approx(share), verdict)


def test_it_can_be_had_for_nothing_where_the_outcome_cannot(box):
    hack = program("print('NO')")
    assert PartialReward(box)(hack, Task(tests=NO)).value == pytest.approx(0.8)
    assert CodeReward(box)(hack, Task(tests=NO)).value == 0.0


def test_no_program_and_no_sandbox_are_as_for_the_outcome(box):
    assert PartialReward(box)(say("No."), Task(tests=NO)).verdict == "no_code"
    lost = Sandbox(workers=1)
    lost.close()
    assert PartialReward(lost)(program("print('NO')"), Task(tests=NO)).value is None
