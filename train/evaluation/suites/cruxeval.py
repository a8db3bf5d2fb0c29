"""CRUXEval: 800 short functions, each with an input and its output. A model predicts the output, or finds an input.

Prompts are CRUXEval's own (facebookresearch/cruxeval, prompts.py and openai/openai_prompt.py, MIT). The default ones
have two examples; with `?prompt=steps`, prompts request steps first, with one example. Base models continue the text,
chat models get it as a message. Completions end at [/ANSWER].
"""

from collections.abc import Iterator
from functools import partial

from curate.reading.tables import Row, TableFiles
from curate.reading.values import optional_text
from train.evaluation.judges.cruxeval_judges import SECONDS, InputJudge, OutputJudge
from train.evaluation.protocols.forms import Statement
from train.evaluation.suites.suite import Exercise, RowSuite, SuiteOptions, read_switch, read_valid_rows

_COLUMNS = ("id", "code", "input", "output")
_SYSTEM = "You are an expert at Python programming, code execution, test case generation, and fuzzing."
_OUTPUT = """You are given a Python function and an assertion containing an input to the function. Complete the \
assertion with a literal (no unsimplified expressions, no function calls) containing the output when executing the \
provided code on the given input, even if the function is incorrect or incomplete. Do NOT output any extra \
information. Provide the full assertion with the correct output in [ANSWER] and [/ANSWER] tags, following the examples.

[PYTHON]
def f(n):
    return n
assert f(17) == ??
[/PYTHON]
[ANSWER]
assert f(17) == 17
[/ANSWER]

[PYTHON]
def f(s):
    return s + "a"
assert f("x9j") == ??
[/PYTHON]
[ANSWER]
assert f("x9j") == "x9ja"
[/ANSWER]

[PYTHON]
{code}
assert f({input}) == ??
[/PYTHON]
[ANSWER]
"""
_STEPWISE_OUTPUT = """You are given a Python function and an assertion containing an input to the function. Complete \
the assertion with a literal (no unsimplified expressions, no function calls) containing the output when executing the \
provided code on the given input, even if the function is incorrect or incomplete. Do NOT output any extra \
information. Execute the program step by step before arriving at an answer, and provide the full assertion with the \
correct output in [ANSWER] and [/ANSWER] tags, following the examples.

[PYTHON]
def f(s):
    s = s + s
    return "b" + s + "a"
assert f("hi") == ??
[/PYTHON]
[THOUGHT]
Let's execute the code step by step:

1. The function f is defined, which takes a single argument s.
2. The function is called with the argument "hi", so within the function, s is initially "hi".
3. Inside the function, s is concatenated with itself, so s becomes "hihi".
4. The function then returns a new string that starts with "b", followed by the value of s (which is now "hihi"), and \
ends with "a".
5. The return value of the function is therefore "bhihia".
[/THOUGHT]
[ANSWER]
assert f("hi") == "bhihia"
[/ANSWER]

[PYTHON]
{code}
assert f({input}) == ??
[/PYTHON]
[THOUGHT]
"""
_INPUT = """You will be given a function f and an output in the form f(??) == output. Find any input such that \
executing f on the input leads to the given output. There may be multiple answers, but you should only output one. \
In [ANSWER] and [/ANSWER] tags, complete the assertion with one such input that will produce the output when executing \
the function.

[PYTHON]
def f(my_list):
    count = 0
    for i in my_list:
        if len(i) % 2 == 0:
            count += 1
    return count
assert f(??) == 3
[/PYTHON]
[ANSWER]
assert f(["mq", "px", "zy"]) == 3
[/ANSWER]

[PYTHON]
def f(s1, s2):
    return s1 + s2
assert f(??) == "banana"
[/PYTHON]
[ANSWER]
assert f("ba", "nana") == "banana"
[/ANSWER]

[PYTHON]
{code}
assert f(??) == {output}
[/PYTHON]
[ANSWER]
"""
_STEPWISE_INPUT = """You will be given a function f and an output in the form f(??) == output. Your task is to find \
any input such that executing f on the input leads to the given output. There may be multiple answers, but only \
output one. First, think step by step. You MUST surround the answer with [ANSWER] and [/ANSWER] tags. Express your \
answer as a passing assertion containing the input and the given output.

[PYTHON]
def f(x):
    return x + 1
assert f(??) == 17
[/PYTHON]
[THOUGHT]
To find an input such that executing f on the input leads to the given output, we can work backwards from the given \
assertion. We know that f(??) == 17. \n
Since the function f(x) returns x + 1, for f(??) to be equal to 17, the value of ?? should be 16. \n[/THOUGHT]
[ANSWER]
assert f(16) == 17
[/ANSWER]

[PYTHON]
{code}
assert f(??) == {output}
[/PYTHON]
[THOUGHT]
"""

# By (whether to predict the input, whether to request steps).
_TEMPLATES = {
    (False, False): _OUTPUT,
    (False, True): _STEPWISE_OUTPUT,
    (True, False): _INPUT,
    (True, True): _STEPWISE_INPUT,
}


def _recognizes(row: Row) -> bool:
    """Return whether CRUXEval can read a row. The input may be empty, for a function without arguments."""
    return (
        bool(row["id"] and row["code"] and row["output"]) and row["input"] is not None and "def f(" in str(row["code"])
    )


def _read(predicts_input: bool, table: TableFiles, options: SuiteOptions) -> Iterator[Exercise]:
    requests_steps = read_switch(table, "prompt", "direct", "steps")
    before_code, after_code = _TEMPLATES[predicts_input, requests_steps].split("{code}")
    for row in read_valid_rows(table, _COLUMNS, ()):
        id, code, input, output = (optional_text(row[column]) for column in _COLUMNS)
        rest = (output, requests_steps, options.settings.test_seconds or SECONDS)
        judge = InputJudge(code, *rest) if predicts_input else OutputJudge(*rest)
        known = ("{output}", output) if predicts_input else ("{input}", input)
        text = before_code + code + after_code.replace(*known)
        chat = options.make_default_chat(text, text, _SYSTEM)
        yield options.make_exercise(f"cruxeval/{id}", Statement(text), chat, judge)


def _make_suite(name: str, title: str, *, predicts_input: bool) -> RowSuite:
    return RowSuite(name, title, "cruxeval-org/cruxeval", _COLUMNS, _recognizes, partial(_read, predicts_input))


OUTPUT = _make_suite("cruxeval-o", "CRUXEval (output prediction)", predicts_input=False)
INPUT = _make_suite("cruxeval-i", "CRUXEval (input prediction)", predicts_input=True)
