"""Wrong programs are made from right ones."""

import ast

import pytest
from source_rows import SUM, SUM_TESTS

from curate.strength import mistakes
from curate.strength.mutants import find_mutable_nodes, generate_mutants
from sandbox import Case, Program, Suite, Verdict

SUITE = Suite([Case(i, o) for i, o in SUM_TESTS])
REFERENCE = """
import sys
from math import gcd

sys.setrecursionlimit(10**6)

def helper(n: int = 7) -> "a text":
    '''What it does.'''
    return n * 2

def never_called(n):
    return n + 12345

def solve(values):
    best = 0
    for i in range(1, len(values)):
        if values[i] > values[i - 1] and values[i] < 50:
            best = max(best, helper(values[i]))
    return best

if __name__ == "__main__":
    print(solve(list(map(int, input().split()))))
"""


def instead(kind, source):
    """Return the programs that a kind of mistake produces, one for each replacement."""
    tree = ast.parse(source)
    programs = []
    for place in find_mutable_nodes(tree, ()):
        for node in getattr(mistakes, kind)(place.node):
            programs.append(place.unparse_with(node, tree))
    assert ast.unparse(tree) == ast.unparse(ast.parse(source))
    return programs


@pytest.mark.parametrize(
    ("kind", "source", "expected"),
    [
        ("off_by_one", "range(n)", ["range(n + 1)", "range(n - 1)", "range(1, n)"]),
        ("off_by_one", "range(1, 9, 2)", ["range(1, 10, 2)", "range(1, 8, 2)", "range(2, 9, 2)"]),
        ("off_by_one", "a[i]", ["a[i + 1]", "a[i - 1]"]),
        ("off_by_one", "a[1:n]", ["a[1:n + 1]", "a[1:n - 1]", "a[2:n]"]),
        (
            "off_by_one",
            "for x in a:\n    f(x)",
            ["for x in list(a)[1:]:\n    f(x)", "for x in list(a)[:-1]:\n    f(x)"],
        ),
        ("comparison", "a < b", ["a <= b", "a > b"]),
        ("comparison", "a < b == c", ["a <= b == c", "a > b == c", "a < b != c", "a < b <= c", "a < b >= c"]),
        ("swapped_operator", "a + b", ["a - b"]),
        ("swapped_operator", "s + 'text'", []),
        ("swapped_operator", "a -= 1", ["a += 1"]),
        ("swapped_operator", "a and b", ["a or b"]),
        ("swapped_operator", "not a", ["a"]),
        ("swapped_operator", "min(a, b)", ["max(a, b)"]),
        ("dropped_branch", "if a:\n    f()", ["if False:\n    f()", "if True:\n    f()"]),
        ("dropped_branch", "b if a else c", ["b", "c"]),
        ("dropped_branch", "a and b or c", ["a and b", "c", "b or c", "a or c"]),
        ("dropped_statement", "a.append(b)", ["pass"]),
        ("dropped_statement", "print(b)", []),
        ("dropped_statement", "a[i] = 1", ["pass"]),
        ("constant", "f(2)", ["f(3)", "f(1)"]),
        ("constant", "f(1000000007)", ["f(1000000)"]),
        ("constant", "f(True, 'YES')", ["f(False, 'YES')", "f(True, '')"]),
        ("early_return", "while a:\n    f()", ["while a:\n    f()\n    break"]),
        (
            "early_return",
            "def f(a):\n    for x in a:\n        g(x)\n    return 1\nf(a)",
            [
                "def f(a):\n    for x in a:\n        g(x)\n        return 1\n    return 1\nf(a)",
                "def f(a):\n    for x in a:\n        g(x)\n        break\n    return 1\nf(a)",
            ],
        ),
    ],
)
def test_each_kind_of_mistake_changes_a_program_as_expected(kind, source, expected):
    assert sorted(instead(kind, source)) == sorted(expected)


def test_every_mutant_is_another_program_that_parses():
    sources = [mutant.source for mutant in generate_mutants(REFERENCE, SUITE, n_shown_cases=0, seed=0)]
    shapes = {ast.dump(ast.parse(source)) for source in sources}
    assert len(shapes) == len(sources) == 24
    assert ast.dump(ast.parse(REFERENCE)) not in shapes


def test_mutants_are_bounded_and_of_all_kinds():
    chosen = generate_mutants(REFERENCE, SUITE, n_shown_cases=0, seed=0, max_count=12)
    assert len(chosen) == 12
    possible = "hard_coded off_by_one comparison dropped_branch swapped_operator constant early_return"
    assert {mutant.kind for mutant in chosen} == set(possible.split())


def test_the_seed_determines_the_choice():
    def chosen(seed):
        return generate_mutants(REFERENCE, SUITE, n_shown_cases=0, seed=seed)

    assert chosen(0) == chosen(0)
    assert chosen(0) != chosen(1)


def test_code_without_effect_is_not_changed():
    sources = [
        m.source
        for m in generate_mutants(REFERENCE, SUITE, n_shown_cases=0, seed=0, max_count=1000)
        if m.kind != "hard_coded"
    ]
    unchanged = [
        "from math import gcd",
        "sys.setrecursionlimit(10 ** 6)",
        'def helper(n: int=7) -> \'a text\':\n    """What it does."""',
        "def never_called(n):\n    return n + 12345",
        "if __name__ == '__main__':",
    ]
    for text in unchanged:
        assert all(text in source for source in sources), text


@pytest.mark.parametrize("text", ["print 'a'", "x = (", "x = " + "(" * 5000 + ")" * 5000, "a\0", "x = 1" + "+1" * 5000])
def test_a_text_that_is_not_a_program_has_no_mutants(text):
    assert generate_mutants(text, SUITE, n_shown_cases=0, seed=0) == []


def hard_coded(suite, shown):
    return [
        Program(m.source) for m in generate_mutants(SUM, suite, n_shown_cases=shown, seed=0) if m.kind == "hard_coded"
    ]


def test_a_hard_coded_program_knows_the_shown_cases_and_the_usual_answer(box):
    suite = Suite([Case("1\n", "a"), Case("2\n", "b"), Case("3\n", "c"), Case("4\n", "c"), Case("5\n", "d")])
    passed = [
        [case.verdict is Verdict.ACCEPTED for case in box.judge(program, suite, run_all=True).cases]
        for program in hard_coded(suite, 1)
    ]
    assert passed == [[False, False, True, True, False], [True, False, True, True, False]]


def test_a_hard_coded_function_answers_calls(box):
    suite = Suite([Case(f"[[{n}], {n}]", f"[{n // 3}]") for n in range(4)], entry_point="f")
    passed = [
        [case.verdict is Verdict.ACCEPTED for case in box.judge(program, suite, run_all=True).cases]
        for program in hard_coded(suite, 0)
    ]
    assert passed == [[True, True, True, False], [True, True, True, False]]


def test_a_mutant_differs_only_by_its_mistake(box):
    suite = Suite([Case("1 2\n", "3\n"), Case("0 0\n", "0\n")])
    mutated = generate_mutants("a, b = map(int, input().split())\nprint(a + b)", suite, n_shown_cases=0, seed=0)
    (minus,) = [Program(mutant.source) for mutant in mutated if mutant.kind == "swapped_operator"]
    assert [c.verdict for c in box.judge(minus, suite, run_all=True).cases] == [Verdict.WRONG_ANSWER, Verdict.ACCEPTED]
