import json

import pytest
from source_rows import SUM, SUM_TESTS

from curate.errors import CurateError
from curate.json_records import from_json, to_json
from curate.judging import CaseFailure, map_with_retries
from curate.problem import Problem, Wrapping
from curate.reading.solutions import parse_solution
from curate.stage import BuildRow
from curate.stages.rerun import RerunStage
from curate.stages.verify import ReferenceRecord, VerificationStage
from sandbox import Case, Limits, Program, Sandbox, SandboxError, Suite, Verdict

WRONG = "print(0)"
CRASH = "1 / 0"
HANG = "while True: pass"
CPP = "#include <iostream>\nint main() { int a, b; std::cin >> a >> b; std::cout << a + b; }"
PYTHON = ("python",)


def problem(*solutions, id="taco/0", tests=SUM_TESTS, wrapping=Wrapping.NONE, **suite):
    suite = Suite([Case(i, o) for i, o in tests], limits=Limits(wall_seconds=1.0), **suite)
    return Problem(
        id, "taco", "", suite, solutions=tuple(map(parse_solution, solutions)), licence="", wrapping=wrapping
    )


def stage(tries=8, languages=PYTHON, seed=0):
    return VerificationStage(tries=tries, languages=languages, seed=seed)


def find_references(problems, box, **options):
    """Yield each problem with what a build records about it."""
    return map_with_retries(
        problems, lambda problem: stage(**options).examine(BuildRow(problem), lambda seed: box), box
    )


def apply_record(problem, record, **options):
    return stage(**options).apply_record(BuildRow(problem), record).problem


def fingerprint(problem, **options):
    return stage(**options).key(BuildRow(problem))


def verdict_again(problem, box):
    return RerunStage(stage()).examine(BuildRow(problem), lambda seed: box).verdict


def finding(box, problem, tries=8, languages=PYTHON):
    ((_, finding),) = find_references([problem], box, tries=tries, languages=languages)
    return finding


def test_the_first_solution_that_passes_is_recorded_with_its_tries(box):
    whole = problem(WRONG, SUM, CRASH)
    found = finding(box, whole)
    settled = apply_record(whole, found, languages=PYTHON)
    assert settled.verified
    assert settled.reference == Program(SUM)
    assert (found.passing_index, found.causes, found.failures) == (2, ("runtime_error", "wrong_answer"), ())
    assert settled.n_tries == 3
    assert settled.cpu_seconds > 0


def test_a_solution_must_pass_every_test(box):
    almost = "n = sum(map(int, input().split())); print(n if n < 11 else 0)"
    found = finding(box, problem(almost))
    assert (found.passing_index, found.causes) == (None, ("wrong_answer",))
    assert found.failures == (CaseFailure(solution_index=0, test_index=5, verdict=Verdict.WRONG_ANSWER, detail="0\n"),)
    assert apply_record(problem(almost), found, languages=PYTHON) == problem(almost)


def test_no_more_solutions_are_tried_than_allowed(box):
    wrong = [f"print(0)  # {n}" for n in range(5)]
    assert len(finding(box, problem(*wrong), tries=3).causes) == 3
    assert finding(box, problem(*wrong, SUM + " # the longest one"), tries=3).passing_index is None


def test_solutions_in_another_language_are_not_executed(box):
    assert finding(box, problem(CPP, "print 'a'", SUM)).n_tries == 1


def test_a_solution_in_another_chosen_language_becomes_the_reference(box):
    languages = ("python", "cpp")
    whole = problem(CPP, WRONG)
    found = finding(box, whole, languages=languages)
    assert (found.passing_index, found.causes) == (1, ("wrong_answer",))
    assert apply_record(whole, found, languages=languages).reference == Program(CPP, "cpp")


def test_a_hanging_solution_costs_one_try(box):
    found = finding(box, problem(HANG, SUM))
    assert (found.passing_index, found.causes) == (1, ("time_limit",))


@pytest.mark.parametrize(
    ("solution", "wrapping", "first_expected"),
    [
        pytest.param("def f(n):\n    return n + 1", Wrapping.REMOVED, "2", id="wrapped"),
        pytest.param("def f(n):\n    return [n + 1]", Wrapping.KEPT, "[2]", id="not wrapped"),
    ],
)
def test_running_a_reference_decides_whether_lists_of_one_are_a_wrapping(box, solution, wrapping, first_expected):
    whole = problem(
        solution,
        tests=[("[1]", "[2]"), ("[2]", "[3]")],
        wrapping=Wrapping.UNDECIDED,
        entry_point="f",
        checker="exact",
    )
    found = finding(box, whole)
    settled = apply_record(whole, found, languages=PYTHON)
    assert (settled.wrapping, settled.tests.cases[0].expected) == (wrapping, first_expected)
    assert found.n_tries == 1


def test_one_reading_holds_for_all_tests_of_a_problem(box):
    sometimes = "def f(n):\n    return [n + 1] if n % 2 else n + 1"
    whole = problem(
        sometimes,
        tests=[("[1]", "[2]"), ("[2]", "[3]")],
        wrapping=Wrapping.UNDECIDED,
        entry_point="f",
        checker="exact",
    )
    assert finding(box, whole).passing_index is None


def test_many_problems_are_judged_side_by_side_and_each_has_one_finding(box):
    problems = [problem(WRONG, SUM if n % 3 else CRASH, id=f"taco/{n}") for n in range(20)]
    found = {p.id: f for p, f in find_references(iter(problems), box, tries=8, languages=PYTHON)}
    assert {id for id, f in found.items() if f.passing_index is None} == {f"taco/{n}" for n in range(0, 20, 3)}
    assert len(found) == 20


def test_a_solution_that_passes_by_luck_fails_with_another_seed(box):
    lucky = "import random; print(random.random())"
    whole = problem(lucky, tests=[("", box.run(Program(lucky)).text)])
    settled = apply_record(whole, finding(box, whole), languages=PYTHON)
    assert settled.verified
    with Sandbox(workers=1, seed=1) as other:
        assert verdict_again(settled, other) is Verdict.WRONG_ANSWER
    assert verdict_again(settled, box) is Verdict.ACCEPTED


def test_a_lost_run_is_repeated_and_changes_nothing(box):
    class Losing:
        workers = 1
        asked = 0

        def judge(self, *arguments, **options):
            self.asked += 1
            if self.asked in (2, 5):  # once after a first solution of a problem was judged
                raise SandboxError("a worker died")
            return box.judge(*arguments, **options)

    problems = [problem(WRONG, SUM, id=f"taco/{n}") for n in range(6)]
    found = {p.id: f for p, f in find_references(problems, Losing(), tries=8, languages=PYTHON)}
    assert {(f.passing_index, f.causes) for f in found.values()} == {(1, ("wrong_answer",))}
    assert len(found) == 6


def test_a_sandbox_that_stays_broken_stops_the_build_and_drops_nothing():
    class Broken:
        workers = 1

        def judge(self, *arguments, **options):
            raise SandboxError("no namespaces")

    with pytest.raises(CurateError, match=r"no namespaces.*curate doctor"):
        list(find_references([problem(SUM)], Broken(), tries=8, languages=PYTHON))


def test_a_finding_survives_being_recorded():
    failures = (CaseFailure(0, 3, Verdict.TIME_LIMIT, ""),)
    found = ReferenceRecord(1, Wrapping.REMOVED, ("time_limit",), 0.25, 0.125, 1.5, failures)
    assert from_json(ReferenceRecord, json.loads(json.dumps(to_json(found)))) == found


def test_a_fingerprint_names_all_that_a_finding_depends_on():
    plain = fingerprint(problem(SUM), tries=8, languages=PYTHON, seed=0)
    assert fingerprint(problem(SUM, id="taco/1"), tries=8, languages=PYTHON, seed=0) == plain
    assert fingerprint(problem(SUM), tries=8, languages=PYTHON, seed=1) != plain
    assert fingerprint(problem(WRONG), tries=8, languages=PYTHON, seed=0) != plain
    assert fingerprint(problem(SUM, tests=SUM_TESTS[1:]), tries=8, languages=PYTHON, seed=0) != plain
    assert fingerprint(problem(SUM, checker="exact"), tries=8, languages=PYTHON, seed=0) != plain
    assert fingerprint(problem(SUM, CPP), tries=8, languages=("python", "cpp"), seed=0) != plain
    assert fingerprint(problem(SUM, WRONG), tries=1, languages=PYTHON, seed=0) != fingerprint(
        problem(SUM, WRONG), tries=2, languages=PYTHON, seed=0
    )
