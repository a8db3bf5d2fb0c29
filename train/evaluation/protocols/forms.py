"""How problems of LiveCodeBench are put to models.

LiveCodeBench has one form for models of chat in general, and one for DeepSeek-R1 and its distilled models, which
lighteval uses for all models. DeepCoder made one message of the general form. evalchemy's form does not show the
starter code.

MERGED How EvalPlus puts the problems of HumanEval and MBPP to models.

A model of chat continues a message of its own in which a block of Python has begun. A model that thinks first cannot do
that: it is asked without that message, as EvalPlus asks models behind an address. A base model continues the text of
the program; the program is that text with the answer.

MERGED How CRUXEval puts its problems to models: facebookresearch/cruxeval, prompts.py and openai/openai_prompt.py (MIT).

There are two prompts each for outputs and inputs. The direct ones have two examples with answers; the others ask for
steps first, and have one example with steps. Base models continue the text, models of chat get it as a message. In both
cases, answers end at [/ANSWER].

MERGED How questions of mathematics are put to models. All of these forms are one message of the user.
"""

from train.evaluation.protocols.protocol import PromptForm, RenderedPrompt, Statement, user_prompt

_SYSTEM = (
    "You are an expert Python programmer. You will be given a question (problem specification) and will generate a "
    "correct Python program that matches the specification and passes all tests."
)
_TO_REASONERS = (
    "You will be given a question (problem specification) and will generate a correct Python program that matches the "
    "specification and passes all tests."
)
_WITH_STARTER_CODE = (
    "You will use the following starter code to write the solution to the problem and enclose your code within "
    "delimiters."
)
_FROM_STDIN = (
    "Read the inputs from stdin solve the problem and write the answer to stdout (do not directly test on the sample "
    "inputs). Enclose your code within delimiters as follows. Ensure that when the python program runs, it reads the "
    "inputs, runs the algorithm and writes output to STDOUT."
)
_NO_STARTER_CODE = "# YOUR CODE HERE"
_ANSWER = "### Answer: (use the provided format with backticks)\n\n"
_EVALCHEMY_STDIN = (
    "Generate an executable Python function generated from the given prompt. The function should take stdin as input "
    "and print the output. Simply call the function after the definition."
)
_EVALCHEMY_CALL = (
    "Generate an executable Python function generated from the given prompt. Return the function body without invoking "
    "it at the final solution."
)
_SUITES = ("lcb", "codeforces", "dataset")


def _format(problem: Statement) -> str:
    instruction = _WITH_STARTER_CODE if problem.starter_code else _FROM_STDIN
    return f"{instruction}\n```python\n{problem.starter_code or _NO_STARTER_CODE}\n```\n\n"


def _generic(problem: Statement) -> RenderedPrompt:
    asked = f"### Question:\n{problem.text}\n\n### Format: {_format(problem)}{_ANSWER}"
    return RenderedPrompt([{"role": "system", "content": _SYSTEM}, {"role": "user", "content": asked}])


def _reasoners(problem: Statement) -> RenderedPrompt:
    return user_prompt(f"{_TO_REASONERS}\n\nQuestion: {problem.text}\n\n{_format(problem)}")


def _deepcoder(problem: Statement) -> RenderedPrompt:
    return user_prompt(f"{_SYSTEM}\n\n{problem.text}### Format: {_format(problem)}{_ANSWER}")


def _evalchemy(problem: Statement) -> RenderedPrompt:
    return user_prompt((_EVALCHEMY_STDIN if problem.entry_point is None else _EVALCHEMY_CALL) + problem.text)


GENERIC = PromptForm("lcb", _SUITES, _generic)
DEEPSEEK_R1 = PromptForm("lcb-deepseek-r1", _SUITES, _reasoners)
DEEPCODER = PromptForm("deepcoder", _SUITES, _deepcoder)
EVALCHEMY_CODE = PromptForm("evalchemy-code", _SUITES, _evalchemy)


_INSTRUCTION = (
    "Please provide a self-contained Python script that solves the following problem in a markdown code block:"
)
_PREFILL = (
    "Below is a Python script with a self-contained function that solves the problem and passes corresponding tests:\n"
    "```python\n"
)
_CLOSED = "\n```\n"
_SPECIAL = ("<|endoftext|>", "</s>")
_MAIN = ("\nif __name__", "\ndef main(", "\nprint(")
_ENDS = (*_SPECIAL, *_MAIN)
_HUMANEVAL, _MBPP = ("humaneval", "humaneval+"), ("mbpp", "mbpp+")


def _prefilled(problem: Statement) -> RenderedPrompt:
    asked = [
        {"role": "user", "content": f"{_INSTRUCTION}\n```\n{problem.text.strip()}\n```\n"},
        {"role": "assistant", "content": _PREFILL},
    ]
    return RenderedPrompt(asked, answer_prefix=_PREFILL, answer_suffix=_CLOSED)


def _thinking(problem: Statement) -> RenderedPrompt:
    return user_prompt(f"{_INSTRUCTION}\n```python\n{problem.text.strip()}\n```")


def _completion(problem: Statement) -> RenderedPrompt:
    begun = problem.text.strip() + "\n"
    return RenderedPrompt(begun, answer_prefix=begun)


PREFILLED = PromptForm(
    "evalplus", (*_HUMANEVAL, *_MBPP), _prefilled, stop=(_CLOSED, *_MAIN, *_SPECIAL), extraction="evalplus"
)
THINKING = PromptForm("evalplus-thinking", (*_HUMANEVAL, *_MBPP), _thinking, extraction="evalplus")
HUMANEVAL_COMPLETION = PromptForm(
    "completion",
    _HUMANEVAL,
    _completion,
    stop=("\ndef ", "\nclass ", "\nimport ", "\nfrom ", "\nassert ", *_ENDS),
    extraction="whole",
)
MBPP_COMPLETION = PromptForm("completion", _MBPP, _completion, stop=('\n"""', "\nassert", *_ENDS), extraction="whole")


SYSTEM = "You are an expert at Python programming, code execution, test case generation, and fuzzing."
STOP = "[/ANSWER]"

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


def output_prompt(code: str, input: str, *, stepwise: bool) -> str:
    """Return the prompt that asks what f returns."""
    return _filled(_STEPWISE_OUTPUT if stepwise else _OUTPUT, code=code, input=input)


def input_prompt(code: str, output: str, *, stepwise: bool) -> str:
    """Return the prompt that asks for an input of f."""
    return _filled(_STEPWISE_INPUT if stepwise else _INPUT, code=code, output=output)


def _filled(text: str, code: str, **others: str) -> str:
    head, tail = text.split("{code}")
    for name, value in others.items():
        tail = tail.replace(f"{{{name}}}", value)
    return head + code + tail


def _cruxeval_completion(problem: Statement) -> RenderedPrompt:
    return RenderedPrompt(problem.text)


COMPLETION = PromptForm("completion", ("cruxeval-o", "cruxeval-i"), _cruxeval_completion, stop=(STOP,))


_MATHEMATICS_SUITES = ("aime24", "aime25", "math500")
_LIGHTEVAL = (
    "Solve the following math problem efficiently and clearly.  The last line of your response should be of the "
    "following format: 'Therefore, the final answer is: $\\boxed{ANSWER}$. I hope it is correct' (without quotes) "
    "where ANSWER is just the final number or expression that solves the problem. Think step by step before answering."
)


def _deepscaler(problem: Statement) -> RenderedPrompt:
    return user_prompt(f"{problem.text} Let's think step by step and output the final answer within \\boxed{{}}.")


def _lighteval(problem: Statement) -> RenderedPrompt:
    return user_prompt(f"{_LIGHTEVAL}\n\n{problem.text}")


def _mathematics_evalchemy(problem: Statement) -> RenderedPrompt:
    return user_prompt(f"Problem: {problem.text}\nMark your solution with \\boxed\nAnswer:")


DEEPSCALER = PromptForm("deepscaler", _MATHEMATICS_SUITES, _deepscaler)
LIGHTEVAL = PromptForm("lighteval", _MATHEMATICS_SUITES, _lighteval)
EVALCHEMY_MATHEMATICS = PromptForm("evalchemy", _MATHEMATICS_SUITES, _mathematics_evalchemy)
