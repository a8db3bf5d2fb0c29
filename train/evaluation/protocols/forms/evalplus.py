"""How EvalPlus puts the problems of HumanEval and MBPP to models.

A model of chat continues a message of its own in which a block of Python has begun. A model that thinks first cannot do
that: it is asked without that message, as EvalPlus asks models behind an address. A base model continues the text of
the program; the program is that text with the answer.
"""

from train.evaluation.protocols.prompt_form import PromptForm, RenderedPrompt, Statement, user_prompt

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
