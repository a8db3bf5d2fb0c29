"""The strength of tests that are Python code is measured as that of others."""

from curate.judging import MeteredSandbox, collect_outputs
from curate.problem import Problem
from curate.reading.dialects.literals import parse_call
from curate.strength.extra_inputs import generate_extra_inputs
from curate.strength.measurement import measure
from curate.strength.mutants import generate_mutants
from sandbox import Assertions, Case, Program, Suite, Verdict

BIGGEST = """
class Solution:
    def best(self, pairs, *, least=0):
        best = least
        for name, value in pairs:
            if value > best:
                best = value
        return best, {name for name, value in pairs if value == best}
"""
CASES = [
    Case("Solution().best([('a', 3), ('b', 9)])", "(9, {'b'})"),
    Case("Solution().best([('a', 4)], least=2)", "(4, {'a'})"),
    Case("Solution().best([], least=7)", "(7, set())"),
    Case("Solution().best([('a', 5), ('b', 5), ('c', 1)])", "(5, {'a', 'b'})"),
]
SUITE = Suite(CASES, checker="python", assertions=Assertions(("Solution",), given="from typing import *"))


def test_strength_is_measured_and_holes_are_calls(box):
    problem = Problem("x/0", "x", "s", SUITE, (), "mit", verified=True, reference=Program(BIGGEST))
    strength = measure(problem, MeteredSandbox(box), seed=0)
    assert strength.n_killed > 8
    assert set(strength.strongest) <= set(range(4))
    assert all(parse_call(hole.input).function == "Solution().best" for hole in strength.missed_inputs)


def test_a_program_with_hard_coded_answers_passes_the_tests_that_it_knows(box):
    usual, table = (
        m.source for m in generate_mutants(BIGGEST, SUITE, n_shown_cases=2, seed=0) if m.kind == "hard_coded"
    )
    verdicts = [case.verdict for case in box.judge(Program(table), SUITE, run_all=True).cases]
    assert verdicts[:2] == [Verdict.ACCEPTED] * 2
    assert Verdict.WRONG_ANSWER in verdicts
    assert box.judge(Program(usual), SUITE, run_all=True).cases[0].verdict is Verdict.ACCEPTED


def test_all_kinds_of_mistakes_are_made_in_what_the_tests_use():
    kinds = {mutant.kind for mutant in generate_mutants(BIGGEST, SUITE, n_shown_cases=0, seed=0)}
    assert {"hard_coded", "comparison", "off_by_one"} <= kinds


def test_extra_calls_keep_functions_names_of_arguments_and_types():
    inputs = generate_extra_inputs(Suite([*CASES, Case("assert Solution()", "")], assertions=SUITE.assertions), seed=0)
    assert len(inputs) > 10
    assert inputs == generate_extra_inputs(
        Suite([*CASES, Case("assert Solution()", "")], assertions=SUITE.assertions), seed=0
    )
    for call in map(parse_call, inputs):
        assert call.function == "Solution().best"
        assert set(call.arguments) <= {0, "least"}
        assert all(isinstance(pair, tuple) for pair in call.arguments[0])


def test_the_answers_of_a_program_are_literals_that_its_own_judge_accepts(box):
    source = (
        "def f(x):\n    return {'a': [x, {1, 2}, frozenset()], 'b': (float('inf'), None, 1.5, b'x')} if x else object()"
    )
    suite = Suite([], checker="python", assertions=Assertions(("f",)))
    (case,) = collect_outputs(Program(source), ["f(1)", "f(0)", "f('", "g()"], suite, box)
    assert case == Case("f(1)", "{'a': [1, {1, 2}, frozenset()], 'b': (1e999, None, 1.5, b'x')}")
    assert box.judge(Program(source), Suite([case], checker="python", assertions=suite.assertions)).accepted
