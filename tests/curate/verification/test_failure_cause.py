"""A single word states why a solution failed."""

import pytest

from curate.judging import classify_failure
from sandbox import Case, Limits, Program, Suite

SUITE = Suite([Case("1\n", "2\n")], limits=Limits(wall_seconds=2.0))


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("print(3)", "wrong_answer"),
        ("def solve():\n    print(2)", "empty_output"),
        ("import no_such_module", "no_module"),
        ("input(), input()", "input_ended"),
        ("1 / 0", "runtime_error"),
        ("raise ValueError('EOFError: not really')", "runtime_error"),
        ("while True: pass", "time_limit"),
        ("x = [0] * 10**9", "memory_limit"),
        ("print(", "compile_error"),
    ],
)
def test_the_word_says_what_went_wrong(box, source, word):
    assert classify_failure(box.judge(Program(source), SUITE)) == word
