"""How problems of LiveCodeBench are put to models.

LiveCodeBench has one form for models of chat in general, and one for DeepSeek-R1 and its distilled models, which
lighteval uses for all models. DeepCoder made one message of the general form. evalchemy's form does not show the
starter code.
"""

from train.evaluation.protocols.prompt_form import PromptForm, RenderedPrompt, Statement, user_prompt

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
EVALCHEMY = PromptForm("evalchemy-code", _SUITES, _evalchemy)
