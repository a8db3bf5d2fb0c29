"""The problems of examples/learn have the properties that their documentation states."""

import json
import random
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "learn"


@pytest.fixture(autouse=True)
def _example(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLE)


def test_no_held_out_problem_is_among_the_training_problems():
    import problems

    learnt, held_out = problems.make_problems()
    assert len(held_out) == problems.HELD_OUT
    assert {p.task.ask for p in learnt}.isdisjoint(p.task.ask for p in held_out)
    assert {p.task.name.partition("-")[0] for p in learnt} == {p.task.name.partition("-")[0] for p in held_out}


def test_mistakes_hardly_ever_pass_the_tests():
    import problems

    learnt, _ = problems.make_problems()
    passed = []
    for problem in random.Random(0).sample(learnt, 150):
        tests = json.loads(problems.make_row(problem)["tests"])
        assert len({test["input"] for test in tests}) == problems.TESTS
        for body in problem.task.wrong:
            program = problem.task.make_program(body)
            passed.append(all(problems.run_program(program, test["input"]) == test["output"] for test in tests))
    assert sum(passed) < 0.03 * len(passed)


def test_about_a_third_of_the_demonstrations_are_right():
    import problems
    from demonstrations import format_completion, make_demonstration

    rng = random.Random(0)
    learnt, _ = problems.make_problems()
    right = [make_demonstration(p, rng) == format_completion(p.task.make_program(p.task.right)) for p in learnt]
    assert 0.25 < sum(right) / len(right) < 0.35


def test_demonstrations_that_think_aloud_are_right_and_the_others_guess():
    import aloud

    rng = random.Random(0)
    learnt, held_out = aloud.make_problems()
    assert len(held_out) == aloud.HELD_OUT
    assert not set(learnt) & set(held_out)
    right = {True: [], False: []}
    for problem in learnt:
        said = aloud.make_demonstration(problem, rng)
        right["<think>" in said].append(said.endswith(aloud.make_program(problem.find_word(problem.steps))))
    shares = {thought: sum(found) / len(found) for thought, found in right.items()}
    assert shares[False] < 0.3
    assert shares[True] > 0.8
