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
        pytest.param(
            f"<think>a</think><answer>```python\n{CODE}```</answer>", CODE, id="tags on the lines of the fences"
        ),
        pytest.param(f"<answer>\n```python\n{CODE}```\n</answer>", CODE, id="tags on lines of their own"),
        pytest.param("```python\n'''a  \n</answer>\nb'''\n```", "'''a  \n</answer>\nb'''\n", id="a tag in the program"),
    ],
)
def test_the_program_is_the_last_python_block_of_the_answer(answer, program):
    assert program_in(answer) == program


def test_a_line_ends_where_python_ends_it():
    code = "print('a\u2028b\x0cc\x85d\x1ce')\n"
    assert program_in(f"```python\n{code}```") == code
    assert program_in("```python\rprint(1)\r```") == CODE


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("```python\n" * 100_000, id="fences never closed"),
        pytest.param("```" * 300_000, id="fences without a line"),
        pytest.param("`" * 10_000_000, id="ten megabytes of backticks"),
        pytest.param("`" * 1_000_000 + "x`", id="a fence and a backtick"),
        pytest.param("```python\n" + " " * 1_000_000 + "`\n", id="an open block"),
        pytest.param("```" + " " * 1_000_000 + "`", id="spaces behind a fence"),
        pytest.param("```" + "a" * 1_000_000 + "`", id="a long language"),
        pytest.param("```" + " " * 500_000 + "a" * 500_000 + "`", id="both"),
        pytest.param("\t" * 1_000_000 + "x", id="tabs"),
        pytest.param("```\n" * 100_000, id="empty blocks"),
        pytest.param("</think>" * 200_000, id="many thoughts"),
        pytest.param("<think>" * 200_000 + "\n```python\n1\n```", id="many beginnings"),
    ],
)
def test_megabytes_of_hostile_text_hold_no_program_and_take_linear_time(text):
    assert program_in(text) is None
