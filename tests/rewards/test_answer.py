import pytest

from rewards.answer import program_in

CODE = "print(1)\n"


@pytest.mark.parametrize(
    ("answer", "program"),
    [
        pytest.param(f"So:\n```python\n{CODE}```", CODE, id="a block"),
        pytest.param(f"```python\nprint(0)\n```\nBetter:\n```python\n{CODE}```\nDone.", CODE, id="the last one counts"),
        pytest.param(f"```python\n{CODE}```\nIt prints:\n```\n1\n```", CODE, id="an output is not the program"),
        pytest.param(f"```\nprint(0)\n```\n```\n{CODE}```", CODE, id="no language named"),
        pytest.param(f"```Python3\n{CODE}```", CODE, id="a version"),
        pytest.param("```cpp\nint main() {}\n```", None, id="another language"),
        pytest.param(f"```python title=a.py\n{CODE}```", CODE, id="words behind the language"),
        pytest.param("1. First:\n   ```python\n   if x:\n       y()\n   ```", "if x:\n    y()\n", id="indented"),
        pytest.param("```python\nprint(1)```", CODE, id="closed on its last line"),
        pytest.param("````python\nprint(1)\n````", CODE, id="a longer fence"),
        pytest.param(f"```python\r\nprint(1)\r\n```\r\n{''}", CODE, id="lines of Windows"),
        pytest.param(f"```\nas in\n```python\n{CODE}```", CODE, id="a fence that was never closed"),
        pytest.param(f"```python\n{CODE}", None, id="an open block is the beginning of a program"),
        pytest.param(f"```python\n{CODE}```\n```python\nprint(", CODE, id="a whole block and an open one"),
        pytest.param("print(1)", None, id="no fence"),
        pytest.param("Use `print(1)` or ```print(1)```.", None, id="code within a line"),
        pytest.param("```python\n\n```", None, id="an empty block"),
        pytest.param("", None, id="nothing"),
        pytest.param(f"<think>\n```python\nprint(0)\n```\n</think>\n```python\n{CODE}```", CODE, id="thought first"),
        pytest.param(f"hmm\n</think>\n```python\n{CODE}```", CODE, id="the thought began in the prompt"),
        pytest.param(f"```python\n{CODE}```\n</think>\nI do not know.", None, id="only thought of"),
        pytest.param(f"<think>\n```python\n{CODE}```", None, id="never stopped thinking"),
    ],
)
def test_the_program_is_the_last_python_block_of_the_answer(answer, program):
    assert program_in(answer) == program


def test_hostile_answers_of_a_megabyte_are_read_line_by_line():
    for text in ("```python\n" * 100_000, "```" * 300_000, "`" * 1_000_000, "```python\n" + " " * 1_000_000 + "`\n"):
        assert program_in(text) is None
