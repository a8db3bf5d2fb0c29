"""Each rule finds the program that the evaluator it is named after would run."""

import ast
import random

import awkward_answers
import pytest
from evalplus_rows import humaneval_plus_row
from source_rows import livecodebench_row, write_jsonl

from train.evaluation.exercises import read_exercises
from train.evaluation.judges import evalplus_extraction
from train.evaluation.judges.evalplus_extraction import find_longest_run, sanitize
from train.evaluation.judges.extraction import RULES, ExpectedProgram, extract_program
from train.evaluation.protocols.settings import SuiteSettings

TWO = "First:\n```python\na = f()\n```\nBetter:\n```python\nb = f()\n```\nDone."
START = 'import math\n\ndef up(n):\n    """Add one."""\n'


def source(rule, answer, **asked):
    program = extract_program(rule, answer, ExpectedProgram(**asked))
    return program and program.source


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        pytest.param(TWO, "b = f()", id="the last of two blocks"),
        pytest.param("```\na = f()\n```", "a = f()", id="a block without a language"),
        pytest.param("```cpp\nint a;\n```", "int a;", id="the language does not matter"),
        pytest.param("<think>```python\na = f()\n```</think> I give up.", "a = f()", id="thoughts count"),
        pytest.param("```python\na = f()\n```\nSo `x` ```", None, id="a line with backticks after the block"),
        pytest.param("```python\na = f()", None, id="a block that is not closed"),
        pytest.param("a = f()", None, id="no block"),
        pytest.param("  ```python\n  a = f()\n  ```", "  a = f()", id="nothing is dedented"),
    ],
)
def test_livecodebench_takes_what_stands_between_the_last_two_fences(answer, found):
    assert source("lcb", answer) == found


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        pytest.param(TWO, "b = f()", id="the last of two blocks"),
        pytest.param("```cpp\nint a;\n```", "int a;", id="the language does not matter"),
        pytest.param("<think>```\na = f()\n```</think> I give up.", "a = f()", id="thoughts count"),
        pytest.param("```python\na = f()\n```\nSo ```x```.", "a = f()", id="backticks in a line begin no block"),
        pytest.param("```python\na = '```'\n```", "a = '", id="backticks in a line end a block"),
        pytest.param("```python\n    a = f()\n    b\n```", "a = f()\n    b", id="the first line loses its indentation"),
        pytest.param("```py3.11\na = f()\n```", None, id="a label of other signs than letters"),
        pytest.param("```python\na = f()", None, id="a block that is not closed"),
        pytest.param("```python\n```", None, id="an empty block"),
        pytest.param("a = f()", None, id="no block"),
    ],
)
def test_rllm_takes_the_last_block(answer, found):
    assert source("rllm", answer) == found


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        pytest.param(TWO, "b = f()\n", id="the last of two blocks"),
        pytest.param("```python3\na = f()\n```", None, id="a label with a digit"),
        pytest.param("```\n<code>a = f()\n</code>b\n```", "a = f()\n", id="tags around the program"),
        pytest.param("a = f()", None, id="no block"),
    ],
)
def test_evalchemy_takes_the_last_block_for_contests(answer, found):
    assert source("evalchemy", answer) == found


def test_evalchemy_takes_the_first_block_of_python_or_the_whole_answer_for_mbpp():
    assert source("evalchemy-mbpp", f"```\nx\n```\n{TWO.upper()}") == "A = F()\n"
    assert source("evalchemy-mbpp", "```\na = f()\n```") == "```\na = f()\n```"


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        pytest.param(
            "```python\nimport os\n\ndef up(n):\n    return n\n```",
            "import math\ndef up(n):\n    return n\n\n",
            id="what stands before the function gives way to the prompt",
        ),
        pytest.param("```python\nreturn n\n```", "import math\nreturn n\n\n", id="another function"),
        pytest.param(
            "```python\ndef up(n):\n    return {\n}\n```", "import math\ndef up(n):\n    return {\n", id="a brace"
        ),
        pytest.param("    return n", f"{START}\n    return n", id="no block"),
    ],
)
def test_evalchemy_puts_the_function_behind_the_beginning_of_the_prompt_for_humaneval(answer, found):
    assert source("evalchemy-humaneval", answer, prompt=START) == found


def test_evalplus_finds_the_programs_that_its_own_code_finds():
    answers = awkward_answers.answers()
    theirs = awkward_answers.SANITIZED.read_text().split()
    ours = [awkward_answers.digest(sanitize(answer, [awkward_answers.ENTRY_POINT])) for answer in answers]
    assert len(answers) > 1000
    assert [answer for answer, one, other in zip(answers, ours, theirs, strict=True) if one != other] == []


def longest_of_all_runs(text):
    """Return what EvalPlus finds by trying every run."""
    lines = text.split("\n")
    best = lines[:1]
    for begin in range(len(lines)):
        for end in range(begin + 2, len(lines) + 1):
            run = lines[begin:end]
            if n_filled(run) > (n_filled(best) if len(best) > 1 else 0) and parses("\n".join(run)):
                best = run
    return "\n".join(best)


def n_filled(lines):
    return sum(bool(line.strip()) for line in lines)


def parses(source):
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


LINES = (
    "def f(x):|    return x|    if x:|        return 1|    else:|else:|try:|    foo()|except E:|"
    "finally:|@dec|class A:|    def g(self):|        return (1,|            2)|x = (1,|2)|(note that|"
    'It\'s easy|Here it is:|```python|```||   |# Title|    # c|"""|    """doc|x = """|a = [1,|b]|'
    "for i in x:|        break|import os|from a import (|    b)|x = a if b|else c|return 3|print('a')|"
    "    x = 5|  y = 6|\ty = 7|async def h():|match x:|    case 1:|1. First|- item|x = 1; y = 2|"
    "x = 1 \\|    + 2|f(a=1|b=2)|{|}|'unterminated|elif y:|assert f(1) == 2|>>> f(1)|"
    "if __name__ == 'm':|~~~|x: int = 5|\f|x\r|\r|\\|é = 1|0777|a b"
).split("|")


@pytest.mark.parametrize("seed", range(4))
def test_the_longest_run_of_lines_that_parses_is_found(seed):
    random_lines = random.Random(seed)
    for _ in range(250):
        some = random_lines.sample(LINES, random_lines.randint(3, 14))
        text = "\n".join(random_lines.choices(some, k=random_lines.randint(1, 12)))
        assert find_longest_run(text) == longest_of_all_runs(text)


@pytest.mark.parametrize("line", ["(", '"""', "try:", "x = 1", "if x:", "don't", "@f", "x \\", "\0", "\ud800", "a\rb"])
def test_no_answer_keeps_the_rule_of_evalplus_busy(line, monkeypatch):
    """EvalPlus would parse billions of runs of these lines."""
    monkeypatch.setattr(evalplus_extraction, "MAX_CHARS", 1 << 16)
    assert sanitize(f"{line}\n" * 50_000, ["up"])


def test_thoughts_are_text_for_evalplus_unless_its_rule_for_thinking_models_is_chosen():
    thought = "x = 1\n" * 9 + "def up(n):\n    return 0"
    answer = f"<think>\n{thought}\n</think>\n```python\ndef up(n):\n    return n + 1\n```"
    assert source("evalplus", answer, entry_points=("up",)) == "def up(n):\n    return 0"
    assert source("evalplus-thinking", answer, entry_points=("up",)) == "def up(n):\n    return n + 1"
    assert source("evalplus-thinking", "<think>\ndef up(n):\n    return 0", entry_points=("up",)) is None


def test_the_whole_text_can_be_the_program():
    assert source("whole", " return 1\n") == " return 1\n"
    assert source("whole", " \n") is None


@pytest.mark.parametrize(
    ("suite", "row"), [("lcb", livecodebench_row("a", "Add them.")), ("humaneval+", humaneval_plus_row())]
)
def test_only_another_rule_than_ours_is_part_of_a_judges_identity(tmp_path, suite, row):
    path = str(write_jsonl(tmp_path / "rows.jsonl", [row]))
    (usual,) = read_exercises(path, suite=suite)
    names = {
        read_exercises(path, suite=suite, settings=SuiteSettings(extraction=rule))[0].fingerprint for rule in RULES
    }
    assert usual.fingerprint in names
    assert len(names) == len(RULES)
