"""The program in an answer is found, whatever surrounds it."""

import time

import pytest

from rewards import extract_program, extract_submission
from rewards.extract import select_languages
from sandbox import Case, Program, Suite

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
        pytest.param(f"```python title=a.py\n{CODE}```", CODE, id="words after the language"),
        pytest.param("1. First:\n   ```python\n   if x:\n       y()\n   ```", "if x:\n    y()\n", id="indented"),
        pytest.param("```python\nprint(1)```", CODE, id="closed on its last line"),
        pytest.param("````python\nprint(1)\n````", CODE, id="a longer fence"),
        pytest.param(f"```python\r\nprint(1)\r\n```\r\n{''}", CODE, id="line ends of Windows"),
        pytest.param(f"```\nas in\n```python\n{CODE}```", CODE, id="a fence that was never closed"),
        pytest.param(f"```python\n{CODE}", None, id="an open block is the beginning of a program"),
        pytest.param(f"```python\n{CODE}```\n```python\nprint(", CODE, id="a whole block and an open one"),
        pytest.param("print(1)", None, id="no fence"),
        pytest.param("Use `print(1)` or ```print(1)```.", None, id="code within a line"),
        pytest.param("```python\n\n```", None, id="an empty block"),
        pytest.param("", None, id="nothing"),
        pytest.param(f"<think>\n```python\nprint(0)\n```\n</think>\n```python\n{CODE}```", CODE, id="thought first"),
        pytest.param(f"hmm\n</think>\n```python\n{CODE}```", CODE, id="the thought began in the prompt"),
        pytest.param(f"```python\n{CODE}```\n</think>\nI do not know.", None, id="only in a thought"),
        pytest.param(f"<think>\n```python\n{CODE}```", None, id="never stopped thinking"),
        pytest.param(
            f"<think>a</think><answer>```python\n{CODE}```</answer>", CODE, id="tags on the lines of the fences"
        ),
        pytest.param(f"<answer>\n```python\n{CODE}```\n</answer>", CODE, id="tags on lines of their own"),
        pytest.param("```python\n'''a  \n</answer>\nb'''\n```", "'''a  \n</answer>\nb'''\n", id="a tag in the program"),
    ],
)
def test_the_program_is_the_last_python_block_of_the_answer(answer, program):
    assert extract_program(answer) == program


@pytest.mark.parametrize("label", ["py", "python3.11", "Python3.12.1", "py3", "py3.11", "pypy", "pypy3", "cpython"])
def test_a_label_may_name_an_implementation_and_a_version(label):
    assert extract_program(f"```{label}\n{CODE}```\nIt prints:\n```\nf(1)\n```") == CODE


@pytest.mark.parametrize(
    "end",
    [
        "<|im_end|>",
        "<|eot_id|>",
        "<|endoftext|>",
        "</s>",
        "<end_of_turn>",
        "<｜end▁of▁sentence｜>",
        " </answer> <|im_end|></s>",
    ],
)
def test_a_token_that_ends_the_text_may_follow_the_closing_fence(end):
    assert extract_program(f"```python\n{CODE}```{end}") == CODE
    assert extract_program(f"~~~python\n{CODE}~~~{end}\n") == CODE
    assert extract_program(f"```python\nprint(1)```{end}") == CODE
    program = f"s = '''\n```{end}\n'''\n"
    assert extract_program(f"```python\n{program}{CODE}```{end}") == program + CODE


@pytest.mark.parametrize(
    ("answer", "program"),
    [
        pytest.param(f"Here it is: ```python\n{CODE}```", CODE, id="a label"),
        pytest.param(f"Use `print`: ```python\n{CODE}```", CODE, id="inline code before it"),
        pytest.param(f"Here it is: ```\n{CODE}```", CODE, id="no label"),
        pytest.param(f"Output: ```text\n2\n```\nProgram:\n```\n{CODE}```", CODE, id="another label"),
        pytest.param("1. So: ```python\n   if x:\n       y()\n   ```", "if x:\n    y()\n", id="in a list"),
        pytest.param(f"> So: ```python\n> {CODE}> ```", CODE, id="in a quote"),
        pytest.param(f"hm</think>So: ```python\n{CODE}```", CODE, id="the end of a thought"),
        pytest.param(f"hm</think>```python\n{CODE}```", CODE, id="nothing but the end of a thought"),
        pytest.param(f"It ends here ```\nNow:\n```python\n{CODE}```", CODE, id="not without a fence that closes it"),
        pytest.param(f"in ```print\nNow:\n```python\n{CODE}```", CODE, id="nor with a label that is none"),
        pytest.param(
            "```python\ndef f():\n    # as in ```python\n    return 1\n```",
            "def f():\n    # as in ```python\n    return 1\n",
            id="not within a block",
        ),
    ],
)
def test_text_may_stand_before_an_opening_fence(answer, program):
    assert extract_program(answer) == program


@pytest.mark.parametrize(
    ("answer", "program"),
    [
        pytest.param(f"```\npython\n{CODE}```", CODE, id="below its fence"),
        pytest.param(f"```\n\n  Python3.11\n\n{CODE}```", "\n" + CODE, id="below a blank line"),
        pytest.param(f"~~~\npy\n{CODE}~~~", CODE, id="tildes"),
        pytest.param(f"```\npython\n{CODE}```\n```\nf(2)\n```", CODE, id="it counts as a label"),
        pytest.param("```\ncpp\nint main() {}\n```", None, id="another language"),
        pytest.param("```\npython\n```", "python\n", id="nothing below it"),
        pytest.param("```python\npy\nf(1)\n```", "py\nf(1)\n", id="a name below a label"),
        pytest.param(f"```\n{CODE}```\nOutput:\n```\npython\n5\n```", CODE, id="in a sample"),
    ],
)
def test_a_label_may_stand_on_the_line_below_its_fence(answer, program):
    assert extract_program(answer) == program


def test_a_byte_order_mark_belongs_neither_to_the_fence_nor_to_the_program():
    assert extract_program(f"\ufeff```python\n{CODE}```") == CODE
    assert extract_program(f"\ufeff```\n{CODE}```") == CODE
    assert extract_program(f"```python\n\ufeff{CODE}```") == CODE
    assert extract_program("```python\nprint('\ufeff')\n```") == "print('\ufeff')\n"


def test_a_line_ends_where_python_ends_it():
    code = "print('a\u2028b\x0cc\x85d\x1ce')\n"
    assert extract_program(f"```python\n{code}```") == code
    assert extract_program("```python\rprint(1)\r```") == CODE


@pytest.mark.parametrize(
    ("answer", "program"),
    [
        pytest.param("```python\ns = '</think>'\nprint(1)\n```", "s = '</think>'\nprint(1)\n", id="think in string"),
        pytest.param("```python\n# </think>\nprint(1)\n```", "# </think>\nprint(1)\n", id="think in comment"),
        pytest.param(
            "<think>a</think>\n```python\n# </think>\nprint(1)\n```",
            "# </think>\nprint(1)\n",
            id="think in comment after thought",
        ),
        pytest.param(
            "a\n</think>\n```python\nprint('''\n</think>\n''')\n```",
            "print('''\n</think>\n''')\n",
            id="think prompt+str",
        ),
        pytest.param(
            "```python\nprint('''\n</think>\n''')\n```", "print('''\n</think>\n''')\n", id="alone in str, no thought"
        ),
        pytest.param(
            "```\nprint('''\n</think>\n''')\n```\nOut:\n```\n1\n```",
            "print('''\n</think>\n''')\n",
            id="alone in str, unnamed",
        ),
        pytest.param("<think>a</think>\n```python\nprint(1)\n```\nThe </think> tag.", CODE, id="text after"),
        pytest.param("<think>a</think>\n```python\nprint(1)\n```\n</think>", CODE, id="text after alone"),
        pytest.param("```python\nprint(1)\n```\nThe `</think>` tag.", CODE, id="text after no thought"),
        pytest.param("```python\nprint(1)\n```\nThe </think> tag.", CODE, id="text after no thought2"),
        pytest.param("```python\nprint('<think>')\n```", "print('<think>')\n", id="begin in str"),
    ],
)
def test_a_thought_tag_within_or_after_a_program_does_not_hide_it(answer, program):
    assert extract_program(answer) == program


@pytest.mark.parametrize(
    ("answer", "program"),
    [
        pytest.param("```python\nprint(1)```\n</think>\nI do not know.", None, id="only thought"),
        pytest.param("```python\nprint(1)```\nhm</think>\nI do not know.", None, id="only thought same line"),
        pytest.param(
            "<think>a</think>\n```python\nprint(1)\n```\n<think>\n```python\nprint(2)\n```\n</think>\nDone",
            CODE,
            id="hidden second",
        ),
        pytest.param(
            "<think>a</think>\n```python\nprint(1)\n```\n<think>\n```\nx\n</think>\nDone\n```\nq\n```",
            CODE,
            id="hidden second2",
        ),
        pytest.param("hm\n```\nabc\n</think>\nSo\n```\nprint(1)\n```", CODE, id="unbalanced thought"),
        pytest.param("hm\n```python\nabc\n</think>\nSo\n```\nprint(1)\n```", CODE, id="unbalanced thought2"),
        pytest.param("<think>hm\n```python\nabc\n</think>\nSo\n```\nprint(1)\n```", CODE, id="unbalanced thought3"),
        pytest.param(
            "<think>\n```python\ns='</think>'\n```\nhm</think>\n```python\nprint(1)\n```",
            CODE,
            id="thought with fenced tag",
        ),
    ],
)
def test_a_program_in_a_thought_does_not_count(answer, program):
    assert extract_program(answer) == program


@pytest.mark.parametrize(
    ("answer", "program"),
    [
        pytest.param(
            "```python\nx = 1  # see ```\nprint(x)\n```", "x = 1  # see ```\nprint(x)\n", id="comment ends fence"
        ),
        pytest.param('```python\ns = "```"\nprint(s)\n```', 's = "```"\nprint(s)\n', id="s fence"),
        pytest.param(
            "```python\ndef f():\n    '''Do\n\n    ```python\n    f()\n    ```\n    '''\n    return 1\nprint(f())\n```",
            "def f():\n    '''Do\n\n    ```python\n    f()\n    ```\n    '''\n    return 1\nprint(f())\n",
            id="docstring",
        ),
        pytest.param(
            "```python\ns = '''\n```\ncode\n```\n'''\nprint(s)\n```\nOut:\n```\n1\n```",
            "s = '''\n```\ncode\n```\n'''\nprint(s)\n",
            id="col0 md",
        ),
        pytest.param(
            "```python\ns = '''Text: ```\nmore```\n'''\nprint(s)\n```",
            "s = '''Text: ```\nmore```\n'''\nprint(s)\n",
            id="docstring ends fence",
        ),
        pytest.param("```python\nprint(1)```\nIt prints\n```\n1\n```", CODE, id="glued+output"),
        pytest.param("```python\nprint(1) # one```\n", "print(1) # one\n", id="glued comment"),
        pytest.param(
            "```python\nprint(1) # one```\nprints\n```\n1\n```\n", "print(1) # one\n", id="glued comment+output"
        ),
    ],
)
def test_a_fence_in_a_string_or_comment_is_text_of_the_program(answer, program):
    assert extract_program(answer) == program


@pytest.mark.parametrize(
    ("answer", "program"),
    [
        pytest.param("~~~python\nprint(1)\n~~~", CODE, id="tilde"),
        pytest.param("~~~~ python\nprint(1)\n~~~\n~~~~", "print(1)\n~~~\n", id="tilde2"),
        pytest.param("~~~\nprint(1)\n~~~", CODE, id="tilde bare"),
        pytest.param("~~~python\nprint(1)\n# ```\n~~~", "print(1)\n# ```\n", id="tilde holds fence"),
        pytest.param("~~~python\r\nprint(1)\r\n~~~\r\n", CODE, id="crlf"),
        pytest.param("<answer>~~~python\nprint(1)\n~~~</answer>", CODE, id="answer tilde"),
        pytest.param("~~~~~~~\nSolution\n~~~~~~~\n```python\nprint(1)\n```", CODE, id="ornament"),
        pytest.param("~~~~~~~\nSolution\n```python\nprint(1)\n```\n~~~~~", CODE, id="ornament2"),
        pytest.param("~~~~~~~\n```python\nprint(1)\n```", CODE, id="ornament3"),
        pytest.param("````markdown\n# S\n```python\nprint(1)\n```\n````", CODE, id="markdown wrapper"),
    ],
)
def test_fences_are_those_of_commonmark(answer, program):
    assert extract_program(answer) == program


@pytest.mark.parametrize(
    ("answer", "program"),
    [
        pytest.param("1. First\n\n   ```python\n   print(1)\n   ```\n", CODE, id="list"),
        pytest.param("- ```python\n  print(1)\n  ```\n", CODE, id="marker"),
        pytest.param("10) ```python\n    if 1:\n        print(1)\n    ```\n", "if 1:\n    print(1)\n", id="marker2"),
        pytest.param("> So:\n> ```python\n> if 1:\n>     print(1)\n>\n> ```\n", "if 1:\n    print(1)\n", id="quote"),
        pytest.param(">```python\n>print(1)\n>```\n", CODE, id="quote nospace"),
        pytest.param("- a\n  > ```python\n  > print(1)\n  > ```\n", CODE, id="quote in list"),
        pytest.param("> 1. a\n>    ```python\n>    print(1)\n>    ```\n", CODE, id="list in quote"),
        pytest.param("> ~~~python\n> print(1)\n> ~~~\n", CODE, id="quote tilde"),
        pytest.param("> ```python\n> print(0)\nprint(1)\n> ```\n```python\nprint(1)\n```", CODE, id="quote ends"),
        pytest.param(">```python\n>if x:\n> y()\n>```\n", "if x:\n y()\n", id="quote nospace, indented by one"),
        pytest.param("1.\tSo\n\n\t```python\n\tif x:\n\t\ty()\n\t```\n", "if x:\n\ty()\n", id="list indented by tabs"),
        pytest.param("- So\n\t```python\n\tif x:\n\t    y()\n\t```\n", "if x:\n    y()\n", id="tab and spaces"),
        pytest.param("-\t```python\n\tif x:\n\t\ty()\n\t```\n", "if x:\n\ty()\n", id="tab after a marker"),
        pytest.param(
            "- x\n   ```python\n   s = '''\nflat\n'''\n   print(s)\n   ```",
            "s = '''\nflat\n'''\nprint(s)\n",
            id="col of list",
        ),
    ],
)
def test_a_program_may_stand_in_a_list_or_a_quote(answer, program):
    assert extract_program(answer) == program


@pytest.mark.parametrize(
    ("answer", "program"),
    [
        pytest.param("```python\nprint(1)\n```\nEx:\n```python\n>>> f(1)\n1\n```", CODE, id="session"),
        pytest.param("```\nprint(1)\n```\nEx:\n```\n>>> f(1)\n1\n```", CODE, id="an interpreter below it"),
        pytest.param("```python\nprint(1)\n```\nEx:\n```python\nIn [1]: f(1)\nOut[1]: 1\n```", CODE, id="ipython"),
        pytest.param(
            "```python\nprint(1)\n```\nInput:\n```python\n5\n1 2 3\n```\nOutput\n```python\nYES\n```", CODE, id="sample"
        ),
        pytest.param("```\nprint(1)\n```\nInput:\n```\n5\n1 2 3\n```", CODE, id="sample2"),
        pytest.param("```python\nprint(1)\n```\n```python\n# O(n) time\n```", CODE, id="a comment"),
        pytest.param("```\nprint(1)\n```\n```\n# O(n) time,\n\n  # O(1) space\n```", CODE, id="comments"),
        pytest.param("```python\nprint(1)\n```\n```python\n'''O(n) # time'''\n```", CODE, id="a string"),
        pytest.param("```python\n# O(n) time\n```", "# O(n) time\n", id="a comment only"),
        pytest.param("```python\nf()\n```\n```python\n# O(n)\nprint(1)\n```", "# O(n)\nprint(1)\n", id="commented"),
        pytest.param("```python\nf()\n```\n```python\ns = '#'; print(s)\n```", "s = '#'; print(s)\n", id="no comment"),
        pytest.param("```python\n>>> f(1)\n1\n```", ">>> f(1)\n1\n", id="session only"),
        pytest.param(
            "```python\ndef f():\n    '''\n    >>> f()\n    '''\n```",
            "def f():\n    '''\n    >>> f()\n    '''\n",
            id="session in program",
        ),
        pytest.param("```python\n'''\n>>> 1\n'''\nprint(1)\n```", "'''\n>>> 1\n'''\nprint(1)\n", id="doctest program"),
    ],
)
def test_an_example_below_a_program_does_not_hide_it(answer, program):
    assert extract_program(answer) == program


@pytest.mark.parametrize(
    ("answer", "program"),
    [
        pytest.param("```python\nprint(1)\n```\n```python\nprint(2)\n```", "print(2)\n", id="two"),
        pytest.param("```python\nprint(1)\n```\n```python\nprint(2\n```", "print(2\n", id="broken last"),
    ],
)
def test_of_several_programs_the_last_counts_even_if_it_is_broken(answer, program):
    assert extract_program(answer) == program


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("```python\nA()\n```\n```python\nB()\n", id="the last is open"),
        pytest.param("```python\nA()\n```\n~~~python\nB()\n```\n", id="another sign does not close the last"),
        pytest.param("```python\nA()\n```\n````python\nB()\n```\n", id="nor does a shorter fence"),
        pytest.param("</think>\n```python\nA()\n```\n<think>\n```python\nB()\n```\n", id="the last is in a thought"),
        pytest.param("```python\nA()\n```\n> ```python\n> B()\n\nIs it?\n", id="its quote is over"),
    ],
)
def test_a_second_program_that_is_incomplete_is_not_judged(text):
    assert extract_program(text) == "A()\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("```python\n'''" + "```\n" * 250_000, id="fences after triple quotes", marks=pytest.mark.thorough),
        pytest.param("```python\n" + "'''```'''\n" * 100_000, id="fences between triple quotes"),
        pytest.param("".join("`" * n + "\n" for n in range(1400, 3, -1)), id="shorter and shorter fences"),
        pytest.param("~~~\n" * 250_000, id="tildes", marks=pytest.mark.thorough),
        pytest.param("</think>\n" + "<think>\n```\n</think>\n```\n" * 40_000, id="thoughts among fences"),
        pytest.param("x </think> y" * 90_000, id="tags in the middle of a line"),
        pytest.param(">" * 1_000_000 + "```", id="quotes", marks=pytest.mark.thorough),
        pytest.param("- " * 500_000 + "```", id="lists", marks=pytest.mark.thorough),
        pytest.param("```\n" + "> '''\n" * 150_000, id="strings in quotes", marks=pytest.mark.thorough),
        pytest.param("x ```\n" * 150_000, id="fences after text", marks=pytest.mark.thorough),
        pytest.param("```python\n```" + "<|a|>" * 200_000, id="ends of a text", marks=pytest.mark.thorough),
        pytest.param(
            '```python\n"' + '\\"' * 400_000 + "\n```", id="escapes in an open string", marks=pytest.mark.thorough
        ),
    ],
)
def test_a_megabyte_of_fences_tags_and_quotes_takes_linear_time(text):
    def seconds(part):
        begun = time.process_time()
        extract_program(part)
        return time.process_time() - begun

    few = min(seconds(text[: len(text) // 8]) for _ in range(3))
    assert seconds(text) < 40 * few + 0.5  # quadratic time would take 64 times as long


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("```python\n" * 100_000, id="fences never closed"),
        pytest.param("```" * 300_000, id="fences without a line"),
        pytest.param("`" * 10_000_000, id="ten megabytes of backticks"),
        pytest.param("`" * 1_000_000 + "x`", id="a fence and a backtick"),
        pytest.param("```python\n" + " " * 1_000_000 + "`\n", id="an open block"),
        pytest.param("```" + " " * 1_000_000 + "`", id="spaces after a fence"),
        pytest.param("```" + "a" * 1_000_000 + "`", id="a long language"),
        pytest.param("```" + " " * 500_000 + "a" * 500_000 + "`", id="both"),
        pytest.param("\t" * 1_000_000 + "x", id="tabs"),
        pytest.param("```\n" * 100_000, id="empty blocks"),
        pytest.param("</think>" * 200_000, id="many thoughts"),
        pytest.param("<think>" * 200_000 + "\n```python\n1\n```", id="many beginnings"),
    ],
)
def test_megabytes_of_hostile_text_contain_no_program_and_take_linear_time(text):
    assert extract_program(text) is None


CPP = "int main() { return 0; }\n"
BOTH = ("cpp", "python")


@pytest.mark.parametrize(
    ("answer", "program"),
    [
        pytest.param(f"```cpp\n{CPP}```", Program(CPP, "cpp"), id="cpp"),
        pytest.param(f"```C++\n{CPP}```", Program(CPP, "cpp"), id="C++"),
        pytest.param(f"```c++17\n{CPP}```", Program(CPP, "cpp"), id="C++17"),
        pytest.param(f"```\ncpp\n{CPP}```", Program(CPP, "cpp"), id="below its fence"),
        pytest.param(f"```cpp\n{CPP}```\n```cpp\n// O(n) time\n```", Program(CPP, "cpp"), id="a comment below"),
        pytest.param(f"```cc\n{CPP}```\nIt prints:\n```\n1\n```", Program(CPP, "cpp"), id="an output below"),
        pytest.param(f"```python\n{CODE}```", Program(CODE), id="python"),
        pytest.param(f"```\n{CODE}```", Program(CODE), id="a block without a language is Python"),
        pytest.param(f"```python\n{CODE}```\n```cpp\n{CPP}```", Program(CPP, "cpp"), id="the last one, in C++"),
        pytest.param(f"```cpp\n{CPP}```\n```python\n{CODE}```", Program(CODE), id="the last one, in Python"),
        pytest.param(f"```\n{CODE}```\n```cpp\n{CPP}```\n```\n{CODE}```", Program(CPP, "cpp"), id="a name counts more"),
        pytest.param("```java\nclass A {}\n```", None, id="a language that is not allowed"),
    ],
)
def test_the_fence_says_the_language_where_several_are_allowed(answer, program):
    assert extract_submission(answer, BOTH) == program


def test_an_answer_in_cpp_is_not_a_program_unless_cpp_is_allowed():
    answer = f"```python\n{CODE}```\n```cpp\n{CPP}```"
    assert extract_program(answer) == CODE
    assert extract_submission(answer) == Program(CODE)
    assert extract_submission(answer, ("cpp",)) == Program(CPP, "cpp")
    assert extract_submission(f"```\n{CODE}```", ("cpp",)) is None


def test_tests_that_call_functions_take_only_python():
    assert select_languages(Suite([Case("1", "1")]), BOTH) == BOTH
    assert select_languages(Suite([Case("[1]", "1")], entry_point="f"), BOTH) == ("python",)
