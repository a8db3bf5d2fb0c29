import pytest

from curate.problem import Problem
from curate.reading.solutions import guess_language, parse_solution, select_candidates
from sandbox import Program, Suite

CPP = "#include <cstdio>\nint main() { return 0; }"
PYTHON = ("python",)


def problem(*solutions, entry_point=None):
    return Problem("taco/0", "taco", "", Suite([], entry_point=entry_point), solutions=solutions, licence="")


@pytest.mark.parametrize(
    ("source", "name"),
    [
        pytest.param("print(input())", "python", id="python 3"),
        pytest.param("print 'a'", "python2", id="print statement"),
        pytest.param("n = raw_input()\nprint(n)", "python2", id="python 2 builtin"),
        pytest.param("try:\n    input = raw_input\nexcept NameError:\n    pass", "python", id="runs on both"),
        pytest.param("def xrange(n): return range(n)\nfor i in xrange(3): print(i)", "python", id="defines it itself"),
        pytest.param("# for i in xrange(3): print i\nprint(3)", "python", id="python 2 in a comment"),
        pytest.param("#include <cstdio>\nprint(3)", "python", id="c++ in a comment"),
        pytest.param(CPP, "cpp", id="c++"),
        pytest.param("using namespace std;\nint main() {}", "unknown", id="perhaps c++"),
        pytest.param("use std::io;\nfn main() {}", "unknown", id="rust"),
        pytest.param("public class Main { }", "unknown", id="java"),
        pytest.param("const a = 1;\nconsole.log(a);", "unknown", id="javascript"),
        pytest.param("def f(:\n    pass", "python", id="python with a mistake"),
        pytest.param("(" * 100_000, "python", id="too deep to parse"),
    ],
)
def test_the_language_of_a_solution_is_recognised(source, name):
    assert guess_language(source) == name


def test_a_fence_is_removed():
    assert parse_solution("```python\nprint(1)\n```").source == "print(1)"
    assert parse_solution("Here:\n```\nprint(1)\nprint(2)\n```\nDone.").source == "print(1)\nprint(2)"
    assert parse_solution("```python\nprint(1)").source == "print(1)"
    assert parse_solution("print('`')").source == "print('`')"


@pytest.mark.parametrize(
    ("text", "stated", "name"),
    [
        pytest.param("int main() {}", "C++17 (GCC 7-32)", "cpp", id="c++ by its long name"),
        pytest.param("int main() {}", "GNU C++", "cpp", id="gnu c++"),
        pytest.param("```cpp\nint main() {}\n```", "", "cpp", id="stated by the fence"),
        pytest.param("print(1)", "rust", "rust", id="another language is believed"),
        pytest.param("print(1)", "PyPy 2", "python2", id="python 2 is believed"),
        pytest.param("print(1)", "Python 3.12", "python", id="python 3"),
        pytest.param("print 1", "python", "python2", id="python is looked at"),
        pytest.param(CPP, "python", "cpp", id="c++ called python"),
    ],
)
def test_the_stated_language_is_believed_unless_it_is_python(text, stated, name):
    assert parse_solution(text, stated).language == name


def test_candidates_are_distinct_and_the_shortest_comes_first():
    solutions = map(Program, ("print(22)", "print(1)", "print(22)", " "))
    assert select_candidates(problem(*solutions), PYTHON) == [Program("print(1)"), Program("print(22)")]


def test_only_languages_that_were_chosen_are_candidates_and_python_comes_first():
    solutions = [Program("int main() {}", "cpp"), Program("print(1)  # one"), Program("fn main() {}", "rust")]
    assert select_candidates(problem(*solutions), PYTHON) == [solutions[1]]
    assert select_candidates(problem(*solutions), ("cpp", "python")) == [solutions[1], solutions[0]]


def test_cpp_functions_cannot_be_called():
    assert select_candidates(problem(Program("int f() {}", "cpp"), entry_point="f"), ("python", "cpp")) == []
