"""The problems of examples/learn are what they are said to be."""

import json
import random
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "learn"


@pytest.fixture(autouse=True)
def _example(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLE)


def test_nothing_held_out_is_asked_of_those_who_learn():
    import problems

    learnt, held_out = problems.problems()
    assert len(held_out) == problems.HELD_OUT
    assert {p.task.ask for p in learnt}.isdisjoint(p.task.ask for p in held_out)
    assert {p.task.name.partition("-")[0] for p in learnt} == {p.task.name.partition("-")[0] for p in held_out}


def test_mistakes_hardly_ever_pass_the_tests():
    import problems

    learnt, _ = problems.problems()
    passed = []
    for problem in random.Random(0).sample(learnt, 150):
        tests = json.loads(problems.row(problem)["tests"])
        assert len({test["input"] for test in tests}) == problems.TESTS
        for body in problem.task.wrong:
            program = problem.task.program(body)
            passed.append(all(problems.printed(program, test["input"]) == test["output"] for test in tests))
    assert sum(passed) < 0.03 * len(passed)


def test_about_a_third_of_the_demonstrations_are_right():
    import problems
    from demonstrations import answer, demonstration

    rng = random.Random(0)
    learnt, _ = problems.problems()
    right = [demonstration(p, rng) == answer(p.task.program(p.task.right)) for p in learnt]
    assert 0.25 < sum(right) / len(right) < 0.35


def test_who_thinks_aloud_for_longer_is_right_more_often():
    import aloud
    import problems
    from demonstrations import answer

    rng = random.Random(0)
    learnt, _ = problems.problems()
    said = [(p, aloud.demonstration(p, rng)) for p in learnt]
    right = {
        times: [text.endswith(answer(p.task.program(p.task.right))) for p, text in said if text.count("Print") == times]
        for times in (0, 1, 4)
    }
    shares = {times: sum(found) / len(found) for times, found in right.items()}
    assert shares[0] < shares[1] < shares[4]
