"""Each rule finds the program that the evaluator it is named after would run."""

import pytest
from evalplus_rows import humaneval_plus_row
from source_rows import livecodebench_row, write_jsonl

from train.evaluation.exercises import read_exercises
from train.evaluation.judges.judge import RULES, extract_program
from train.evaluation.protocols.settings import SuiteSettings

TWO = "First:\n```python\na = f()\n```\nBetter:\n```python\nb = f()\n```\nDone."


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
    program = extract_program("lcb", answer, ("python",))
    assert (program and program.source) == found


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        pytest.param(TWO, "a = f()", id="the first of two blocks"),
        pytest.param(f"Hm. ```python\nc = f()\n```</think>{TWO}", "b = f()", id="after a thought, the last"),
        pytest.param("```\nx\n```\n```python\na = f()\n```", "a = f()", id="one that names Python first"),
        pytest.param("```\na = f()\n```", "a = f()", id="none that names Python"),
        pytest.param("```python\na = f()\n```\n```\n", "a = f()", id="a fence too many"),
        pytest.param("I give up.", None, id="no block"),
    ],
)
def test_evalplus_takes_the_first_block_or_the_last_one_after_a_thought(answer, found):
    program = extract_program("evalplus", answer, ("python",))
    assert (program and program.source.strip()) == found


def test_the_whole_text_can_be_the_program():
    assert extract_program("whole", " return 1\n", ("python",)).source == " return 1\n"
    assert extract_program("whole", " \n", ("python",)) is None


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
