"""A problem is put to a model in the usual words, or in those of the user's own template."""

import pytest

from curate.errors import CurateError
from curate.prompt import DEFAULT_TEMPLATE, PromptFormat, read_prompt
from sandbox import Assertions, Suite

STDIN, CALL = Suite([]), Suite([], entry_point="total")


def test_the_prompt_for_stdin_and_stdout_asks_for_a_program():
    (message,) = PromptFormat().build_chat("  Add two numbers.\n", "", STDIN)
    assert message["role"] == "user"
    assert message["content"] == (
        "Add two numbers.\n\nWrite a Python 3 program that solves this problem. It reads from standard input and "
        "prints to standard output.\n\nPut the whole program into one ```python block at the end of your answer.\n"
    )


def test_the_prompt_asks_to_complete_starter_code():
    starter = "class Solution:\n    def total(self, numbers: List[int]) -> int:\n        "
    (message,) = PromptFormat().build_chat("Add them.", f"\n{starter}\n", CALL)
    assert f"```python\n{starter}\n```\n\nPut the whole" in message["content"]
    assert "`total`" in message["content"]
    assert "standard input" not in message["content"]


def test_the_prompt_names_a_function_without_starter_code():
    (message,) = PromptFormat().build_chat("Add {them}, {{ or not }}.", " \n", CALL)
    assert message["content"].startswith(
        "Add {them}, {{ or not }}.\n\nWrite a Python 3 function `total` that solves this problem. It is called with "
        "the arguments in their order, and what it returns counts; what it prints does not.\n\nPut the whole program"
    )


@pytest.mark.parametrize("tests", [STDIN, CALL], ids=["stdin", "call"])
@pytest.mark.parametrize("starter", ["", "def total():\n    "])
def test_the_usual_words_can_be_given_as_a_template(tests, starter):
    assert PromptFormat(template=DEFAULT_TEMPLATE).build_chat("Add.", starter, tests) == PromptFormat().build_chat(
        "Add.", starter, tests
    )


def test_a_system_prompt_is_the_first_message():
    system, question = PromptFormat("Think first.").build_chat("Add.", "", STDIN)
    assert system == {"role": "system", "content": "Think first."}
    assert [question] == PromptFormat().build_chat("Add.", "", STDIN)


def test_a_template_sees_what_the_tests_need():
    shown = PromptFormat(template="{{ statement }}|{{ starter_code }}|{{ entry_point }}|{{ names }}|{{ given }}")
    suite = Suite([], assertions=Assertions(("f", "Node"), given="import math"))
    assert shown.build_chat("Add.\n", "", suite)[0]["content"] == "Add.|||['f', 'Node']|import math".replace(
        "|||", "||None|"
    )
    assert shown.build_chat("Add.", "x = 1\n", CALL)[0]["content"] == "Add.|x = 1|total|['total']|"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        pytest.param({"template": "{{ statemnt }}"}, "no variable 'statemnt'.* Did you mean statement?", id="typo"),
        pytest.param({"template": "{{ statement }}{{ hint }}"}, "no variable 'hint'; known are statement", id="other"),
        pytest.param({"template": "{{ names }}"}, "so it omits the problem", id="no statement"),
        pytest.param({"template": "\n{% if %}{{ statement }}"}, "is not Jinja2: line 2", id="syntax"),
        pytest.param({"template": "/no/such.jinja"}, "/no/such.jinja: No such file", id="no file"),
        pytest.param({"system": "@/no/such.txt"}, "/no/such.txt: No such file", id="no text"),
        pytest.param({"system": 3}, "prompt.system must be a string, not 3", id="no string"),
        pytest.param({"template_arguments": {"tokenize": False}}, "'tokenize' is reserved", id="ours"),
        pytest.param({"template_arguments": ["a"]}, "must be a table", id="no table"),
        pytest.param({"format": "text"}, "prompt.format must be one of chat, base, not 'text'", id="format"),
        pytest.param({"sytem": "x"}, "unknown key prompt.sytem; known are prompt.system", id="key"),
    ],
)
def test_mistakes_are_explained_before_anything_is_asked(table, words):
    with pytest.raises(CurateError, match=words):
        read_prompt(table)


def test_a_template_that_fails_is_an_error_in_words():
    with pytest.raises(CurateError, match="the prompt's template fails: division by zero"):
        PromptFormat(template="{{ statement }}{{ 1 / 0 }}").build_chat("Add.", "", STDIN)
    with pytest.raises(CurateError, match="the prompt's template fails: access to attribute '__class__'"):
        PromptFormat(template="{{ statement.__class__.mro() }}").build_chat("Add.", "", STDIN)


def test_texts_can_come_from_files(tmp_path):
    (tmp_path / "system").write_text("Think.\n")
    (tmp_path / "form.jinja").write_text("Solve: {{ statement }}\n")
    prompt = read_prompt({"system": f"@{tmp_path / 'system'}", "template": str(tmp_path / "form.jinja")})
    assert prompt == PromptFormat("Think.", "Solve: {{ statement }}\n")
    assert read_prompt(prompt.as_table()) == prompt
    assert read_prompt({"template_arguments": {"enable_thinking": False}}, prompt).system == "Think."


def test_prompts_are_distinguished_and_the_usual_one_is_as_it_always_was():
    prompts = [
        PromptFormat(),
        PromptFormat("s"),
        PromptFormat(template="{{ statement }}"),
        PromptFormat(template_arguments={"x": False}),
        PromptFormat(format="base"),
    ]
    assert len({str(prompt.cache_key()) for prompt in prompts}) == 5
    assert [text.split()[0] for text in PromptFormat().cache_key()] == ["Write", "Write", "Solve", "Put"]
    assert PromptFormat().as_table() == {}


def test_the_prompt_for_tests_in_python_names_what_to_define_and_shows_what_is_given():
    suite = Suite([], checker="python", assertions=Assertions(("f", "Node"), given="import math\n"))
    (message,) = PromptFormat().build_chat("Add.", "", suite)
    assert message["content"] == (
        "Add.\n\nWrite Python 3 code that solves this problem. Tests in Python use what it defines as `f`, `Node`; "
        "what it prints does not count.\n\nThis code runs before yours, so what it defines is there:\n\n"
        "```python\nimport math\n```\n\nPut the whole program into one ```python block at the end of your answer.\n"
    )
    (message,) = PromptFormat().build_chat("Add.", "import math\n\ndef f(x):", suite)
    assert "tests in Python use `f`, `Node`" in message["content"]
    assert "```python\nimport math\n\ndef f(x):\n```\n\nPut the whole" in message["content"]
