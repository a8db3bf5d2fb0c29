import pytest

from curate.problem import Problem
from curate.solutions import candidates, is_python3, unfence
from sandbox import Suite


def problem(*solutions, language=""):
    return Problem("taco/0", "taco", "", Suite([]), solutions=solutions, language=language, licence="")


@pytest.mark.parametrize(
    ("source", "python"),
    [
        pytest.param("print(input())", True, id="python 3"),
        pytest.param("print 'a'", False, id="print statement"),
        pytest.param("n = raw_input()\nprint(n)", False, id="python 2 builtin"),
        pytest.param("try:\n    input = raw_input\nexcept NameError:\n    pass", True, id="runs on both"),
        pytest.param("def xrange(n): return range(n)\nfor i in xrange(3): print(i)", True, id="defines it itself"),
        pytest.param("# for i in xrange(3): print i\nprint(3)", True, id="python 2 in a comment"),
        pytest.param("#include <cstdio>\nint main() { return 0; }", False, id="c++"),
        pytest.param("use std::io;\nfn main() {}", False, id="rust"),
        pytest.param("public class Main { }", False, id="java"),
        pytest.param("const a = 1;\nconsole.log(a);", False, id="javascript"),
        pytest.param("def f(:\n    pass", True, id="python with a mistake"),
        pytest.param("(" * 100_000, True, id="too deep to parse"),
    ],
)
def test_languages_are_told_apart(source, python):
    assert is_python3(source) is python


def test_a_fence_is_taken_off():
    assert unfence("```python\nprint(1)\n```") == "print(1)"
    assert unfence("Here:\n```\nprint(1)\nprint(2)\n```\nDone.") == "print(1)\nprint(2)"
    assert unfence("```python\nprint(1)") == "print(1)"
    assert unfence("print('`')") == "print('`')"


def test_candidates_are_distinct_and_the_shortest_comes_first():
    assert candidates(problem("print(22)", "print(1)", "print(22)", " ")) == ["print(1)", "print(22)"]


def test_what_the_source_declares_as_another_language_is_not_a_candidate():
    assert candidates(problem("print(1)", language="rust")) == []
    assert candidates(problem("print(1)", language="python")) == ["print(1)"]
