"""The strength of tests is the share of wrong mutants that they kill."""

import json
from dataclasses import replace

import pytest

from curate.errors import CurateError
from curate.json_records import from_json, to_json
from curate.judging import MeteredSandbox, map_with_retries
from curate.problem import Problem
from curate.stage import BuildRow
from curate.stages.strength import StrengthStage
from curate.strength.measurement import StrengthRecord, measure
from rewards.case_selection import select_cases
from sandbox import Case, Limits, Program, Sandbox, SandboxError, Suite

LARGEST = """
n = int(input())
values = list(map(int, input().split()))
best = values[0]
for i in range(1, n):
    if values[i] > best:
        best = values[i]
print(best)
"""
GOOD = [
    ("5\n3 1 4 1 5\n", "5\n"),
    ("3\n9 1 2\n", "9\n"),
    ("3\n-7 -2 -5\n", "-2\n"),
    ("2\n0 1\n", "1\n"),
    ("1\n4\n", "4\n"),
    ("4\n1 2 8 3\n", "8\n"),
]
ASCENDING = [(f"{n}\n{' '.join(map(str, range(1, n + 1)))}\n", f"{n}\n") for n in range(2, 8)]
SIGN = "class Solution:\n    def sign(self, n: Optional[int]):\n        return 1 if n > 0 else -1 if n < 0 else 0"
SIGNS = [("[7]", "1"), ("[0]", "0"), ("[1]", "1"), ("[-1]", "-1"), ("[-5]", "-1"), ("[-9]", "-1")]


def problem(tests, reference=LARGEST, *, id="taco/0", language="python", **suite):
    suite = Suite([Case(i, o) for i, o in tests], limits=Limits(wall_seconds=2.0), **suite)
    program = reference and Program(reference, language)
    return Problem(id, "taco", "", suite, solutions=None, licence="", reference=program, verified=bool(program))


def measure_each(problems, box, **options):
    return map_with_retries(problems, lambda problem: measure(problem, MeteredSandbox(box), seed=0, **options), box)


def strength(box, problem):
    return measure(problem, MeteredSandbox(box), seed=0)


@pytest.fixture(scope="module")
def found(box):
    """Return the strengths of good tests and of weak ones."""
    problems = [problem(GOOD, id="good"), problem(ASCENDING, id="weak")]
    return {problem.id: strength for problem, strength in measure_each(problems, box)}


def test_good_tests_kill_every_mutant_that_is_wrong(found):
    found = found["good"]
    assert found.share == 1.0
    assert found.n_killed + found.n_equivalent == found.n_mutants > 15
    assert found.survivors == found.missed_inputs == ()
    assert found.spent_cpu_seconds > 0


def test_weak_tests_let_mutants_through_and_show_where(found):
    found = found["weak"]
    assert 0.3 < found.share < 0.9
    assert dict(found.survivors)
    assert sum(n for _, n in found.survivors) == found.n_mutants - found.n_killed - found.n_equivalent
    assert 0 < len(found.missed_inputs) <= 3
    assert all(int(hole.expected) == max(map(int, hole.input.split()[1:])) for hole in found.missed_inputs)


def test_adding_an_input_that_the_tests_missed_makes_them_stronger(box, found):
    weak, before = problem(ASCENDING), found["weak"]
    after = strength(box, replace(weak, tests=replace(weak.tests, cases=weak.tests.cases + before.missed_inputs)))
    assert after.n_killed > before.n_killed


def test_a_mutant_that_does_no_harm_is_left_out_of_the_share(box):
    """Setting `best` to the first value changes nothing: the loop over the rest does it again."""
    twice = LARGEST.replace("range(1, n)", "range(0, n)")
    found = strength(box, problem(GOOD, twice))
    assert found.n_equivalent > 0
    assert found.share == 1.0


def test_functions_are_measured_as_programs_are(box):
    assert strength(box, problem(SIGNS, SIGN, entry_point="sign", checker="exact")).share == 1.0
    without_zero = [SIGNS[0], *SIGNS[2:]]
    weak = strength(box, problem(without_zero, SIGN, entry_point="sign", checker="exact"))
    assert weak.share < 1.0
    assert Case("[0]", "0\n") in weak.missed_inputs


def test_mutants_that_never_end_are_killed(box):
    countdown = "n = int(input())\nwhile n > 0:\n    n -= 1\nprint(n)"
    found = strength(box, problem([("5\n", "0\n"), ("0\n", "0\n"), ("-3\n", "-3\n")], countdown))
    assert found.n_killed > 0
    assert found.spent_cpu_seconds < 60


@pytest.mark.parametrize(
    "unmeasurable",
    [
        pytest.param(problem(GOOD, None), id="no reference"),
        pytest.param(problem(GOOD, "int main() {}", language="cpp"), id="not Python"),
        pytest.param(problem(GOOD, "print(0)"), id="a reference that fails now"),
    ],
)
def test_the_strength_is_unknown_if_nothing_can_be_measured(box, unmeasurable):
    found = strength(box, unmeasurable)
    assert (found.share, found.n_mutants, found.strongest) == (None, 0, ())


def test_the_strongest_cases_kill_what_all_of_them_kill(box, found):
    whole, found = problem(GOOD), found["good"]
    assert 0 < len(found.strongest) < len(GOOD)
    few = select_cases(whole.tests, "strongest", budget=len(found.strongest), strongest=found.strongest)
    assert strength(box, replace(whole, tests=few)).n_killed == found.n_killed


def test_neither_the_order_of_work_nor_the_number_of_workers_matters(box):
    problems = [problem(GOOD[n:], id=f"taco/{n}") for n in range(3)]

    def measured(box, problems):
        return {p.id: replace(s, spent_cpu_seconds=0) for p, s in measure_each(problems, box, max_count=6)}

    found = measured(box, iter(problems))
    assert len(found) == 3
    with Sandbox(workers=1, seed=0) as alone:
        assert measured(alone, [problems[2], problems[0]]) == {id: found[id] for id in ("taco/0", "taco/2")}


def test_a_lost_run_is_repeated_and_changes_nothing(box):
    class Losing:
        workers = 1
        losses = 2

        def run(self, *arguments):
            return box.run(*arguments)

        def judge(self, *arguments, **options):
            return box.judge(*arguments, **options)

        def judge_many_with_errors(self, *arguments, **options):
            if self.losses:
                self.losses -= 1
                raise SandboxError("a worker died")
            return box.judge_many_with_errors(*arguments, **options)

    problems = [problem(GOOD, id=f"taco/{n}") for n in range(3)]
    found = {p.id: s.share for p, s in measure_each(problems, Losing(), max_count=6)}
    assert found == {"taco/0": 1.0, "taco/1": 1.0, "taco/2": 1.0}


def test_a_sandbox_that_stays_broken_stops_the_build():
    class Broken:
        workers = 1

        def judge(self, *arguments, **options):
            raise SandboxError("no namespaces")

    with pytest.raises(CurateError, match=r"no namespaces.*curate doctor"):
        list(measure_each([problem(GOOD)], Broken()))


def test_a_strength_survives_being_recorded():
    found = StrengthRecord(9, 5, 1, (("constant", 3),), (Case("1", "2"),), (4, 0), 1.5)
    assert from_json(StrengthRecord, json.loads(json.dumps(to_json(found)))) == found


def test_the_share_counts_only_mutants_that_are_wrong():
    assert StrengthRecord(10, 6, 2).share == 0.75
    assert StrengthRecord(3, 0, 3).share is None
    assert StrengthRecord().share is None


def test_a_key_names_all_that_a_strength_depends_on():
    def key(problem, seed=0):
        return StrengthStage(max_count=24, min_share=None, seed=seed).key(BuildRow(problem))

    plain = key(problem(GOOD))
    assert key(problem(GOOD, id="taco/1")) == plain
    assert key(problem(GOOD), seed=1) != plain
    assert key(problem(GOOD[1:])) != plain
    assert key(problem(GOOD, "print(0)")) != plain
    assert key(replace(problem(GOOD), n_public_tests=1)) != plain
    assert key(problem(GOOD, LARGEST, language="cpp")) is None
