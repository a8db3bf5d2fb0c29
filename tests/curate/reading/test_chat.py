"""The text of a problem is found in prompts of all usual forms."""

import json

import pytest

from curate.prompt import PromptFormat
from curate.reading.prompt_templates import extract_prompt_texts, strip_prompt_template
from sandbox import Assertions, Case, Suite

ASKED = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Add two numbers."},
    {"role": "assistant", "content": "print(1)"},
    {"role": "user", "content": "It fails."},
]
ASSERTIONS = Assertions(("f",), given="import math")


@pytest.mark.parametrize(
    ("prompt", "texts"),
    [
        pytest.param("Add two numbers.", ["Add two numbers."], id="text"),
        pytest.param("[1, 2] is a list. Add it up.", ["[1, 2] is a list. Add it up."], id="text like JSON"),
        pytest.param('{"a": 1}', ['{"a": 1}'], id="JSON that is not a conversation"),
        pytest.param(ASKED, ["Add two numbers.", "It fails."], id="messages"),
        pytest.param(json.dumps(ASKED), ["Add two numbers.", "It fails."], id="messages as JSON text"),
        pytest.param({"messages": ASKED}, ["Add two numbers.", "It fails."], id="messages in an object"),
        pytest.param(json.dumps({"prompt": json.dumps(ASKED)}), ["Add two numbers.", "It fails."], id="JSON in JSON"),
        pytest.param([{"from": "human", "value": "Add."}, {"from": "gpt", "value": "1"}], ["Add."], id="ShareGPT"),
        pytest.param(
            [{"role": "user", "content": [{"type": "text", "text": "Add"}, {"type": "image"}, {"text": "two."}]}],
            ["Add\ntwo."],
            id="parts",
        ),
        pytest.param(ASKED[:1], ["Be brief."], id="a system prompt alone"),
        pytest.param(ASKED[2:3], [], id="answers alone"),
        pytest.param([1, 2], None, id="numbers"),
        pytest.param([], None, id="nothing"),
        pytest.param(None, None, id="null"),
    ],
)
def test_the_user_tells_the_problem(prompt, texts):
    assert extract_prompt_texts(prompt) == texts


@pytest.mark.parametrize(
    ("suite", "starter"),
    [
        pytest.param(Suite([Case("1\n", "1\n")]), "", id="stdin"),
        pytest.param(Suite([Case("[1]", "1")], entry_point="f"), "", id="call"),
        pytest.param(Suite([Case("[1]", "1")], entry_point="f"), "def f(n):\n    pass", id="starter code"),
        pytest.param(Suite([Case("f(1)", "1")], assertions=ASSERTIONS), "", id="assertions"),
        pytest.param(Suite([Case("f(1)", "1")], assertions=ASSERTIONS), "def f(n):\n    pass", id="with starter code"),
    ],
)
def test_the_words_of_our_own_prompts_do_not_belong_to_the_problem(suite, starter):
    statement = "Add two numbers.\n\nWrite a Python 3 function? No, a sentence."
    (message,) = PromptFormat().build_chat(statement, starter, suite)
    assert len(message["content"]) > len(statement)
    assert strip_prompt_template(message["content"]) == statement
