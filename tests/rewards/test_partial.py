"""A program is worth the share of tests that it passes."""

import pytest
from answers import program_answer, text_answer

from rewards.code import CodeReward, PartialReward
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
def test_the_share_counts_all_tests_and_not_only_those_before_the_first_failure(box, source, share, verdict):
    scored = PartialReward(box, select="all")(program_answer(source), Task(tests=NO))
    assert (scored.value, scored.verdict) == (pytest.approx(share), verdict)


def test_a_constant_answer_earns_a_share_but_no_outcome_reward(box):
    constant = program_answer("print('NO')")
    assert PartialReward(box)(constant, Task(tests=NO)).value == pytest.approx(0.8)
    assert CodeReward(box)(constant, Task(tests=NO)).value == 0.0


def test_a_missing_program_and_a_lost_sandbox_are_treated_as_by_the_outcome_reward(box):
    assert PartialReward(box)(text_answer("No."), Task(tests=NO)).verdict == "no_code"
    lost = Sandbox(workers=1)
    lost.close()
    assert PartialReward(lost)(program_answer("print('NO')"), Task(tests=NO)).value is None
