"""Forms of prompts, exact copies of the published originals.

LiveCodeBench has one form for chat models, and one for DeepSeek-R1 and its distilled models, which lighteval uses for
all models. DeepCoder merged the former into one message. evalchemy's form omits the starter code.

EvalPlus prefills a chat model's message with the beginning of a Python block. A model that thinks first gets no
prefill, as in EvalPlus for models behind a server. A base model continues the text of the program.
"""

from collections.abc import Callable
from dataclasses import dataclass

from curate.prompt import MATHEMATICS_INSTRUCTION, Chat
from train.evaluation.judges import extraction


@dataclass(frozen=True, slots=True)
class Statement:
    """The statement of a problem in its row.

    text          text of the problem, or beginning of the program, with surrounding whitespace
    starter_code  code that a completion must contain; empty: none
    entry_point   function that tests call; None: the program reads stdin
    """

    text: str
    starter_code: str = ""
    entry_point: str | None = None


@dataclass(frozen=True, slots=True)
class PromptForm:
    """A form of prompts for some suites.

    name            command-line name
    format_text     function that formats the user's message, or the text for a base model; None: the suite and the
                    user's template determine the messages
    system          system prompt; empty: none
    prefill         beginning of the assistant message, judged with the completion; empty: none
    answer_suffix   text that follows a completion for the judge
    begins_program  whether the text for a base model is the beginning of the program to judge
    stop            texts that end a completion in this form
    extraction      rule that extracts the program; empty: any rule
    answer_line     whether the prompt requests the final answer of mathematics as `ANSWER: x`, without a box
    """

    name: str
    suites: tuple[str, ...]
    format_text: Callable[[Statement], str] | None
    system: str = ""
    prefill: str = ""
    answer_suffix: str = ""
    begins_program: bool = False
    stop: tuple[str, ...] = ()
    extraction: str = ""
    answer_line: bool = False


OWN = PromptForm("curate", (), None)


def make_chat(system: str, user: str) -> Chat:
    """Return a chat with a user message and, unless empty, a system prompt."""
    return [*([{"role": "system", "content": system}] if system else []), {"role": "user", "content": user}]


_EXPERT = (
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


def _format_instruction(problem: Statement) -> str:
    instruction = _WITH_STARTER_CODE if problem.starter_code else _FROM_STDIN
    return f"{instruction}\n```python\n{problem.starter_code or _NO_STARTER_CODE}\n```\n\n"


def _format_evalchemy_code(problem: Statement) -> str:
    return (_EVALCHEMY_STDIN if problem.entry_point is None else _EVALCHEMY_CALL) + problem.text


_CONTESTS = ("lcb", "codeforces", "dataset")
LCB = PromptForm(
    "lcb",
    _CONTESTS,
    lambda problem: f"### Question:\n{problem.text}\n\n### Format: {_format_instruction(problem)}{_ANSWER}",
    system=_EXPERT,
)
DEEPSEEK_R1 = PromptForm(
    "lcb-deepseek-r1",
    _CONTESTS,
    lambda problem: f"{_TO_REASONERS}\n\nQuestion: {problem.text}\n\n{_format_instruction(problem)}",
)
DEEPCODER = PromptForm(
    "deepcoder",
    _CONTESTS,
    lambda problem: f"{_EXPERT}\n\n{problem.text}### Format: {_format_instruction(problem)}{_ANSWER}",
)
EVALCHEMY_CODE = PromptForm("evalchemy-code", _CONTESTS, _format_evalchemy_code)

_SELF_CONTAINED = (
    "Please provide a self-contained Python script that solves the following problem in a markdown code block:"
)
_PREFILL = (
    "Below is a Python script with a self-contained function that solves the problem and passes corresponding tests:\n"
    "```python\n"
)
BLOCK_END = "\n```\n"
_SPECIAL = ("<|endoftext|>", "</s>")
_MAIN = ("\nif __name__", "\ndef main(", "\nprint(")
_HUMANEVAL, _MBPP = ("humaneval", "humaneval+"), ("mbpp", "mbpp+")
EVALPLUS = PromptForm(
    "evalplus",
    (*_HUMANEVAL, *_MBPP),
    lambda problem: f"{_SELF_CONTAINED}\n```\n{problem.text.strip()}\n```\n",
    prefill=_PREFILL,
    answer_suffix=BLOCK_END,
    stop=(BLOCK_END, *_MAIN, *_SPECIAL),
    extraction=extraction.EVALPLUS,
)
EVALPLUS_THINKING = PromptForm(
    "evalplus-thinking",
    (*_HUMANEVAL, *_MBPP),
    lambda problem: f"{_SELF_CONTAINED}\n```python\n{problem.text.strip()}\n```",
    extraction=extraction.EVALPLUS_THINKING,
)


def _make_completion_form(suites: tuple[str, ...], *stop: str) -> PromptForm:
    return PromptForm(
        "completion",
        suites,
        lambda problem: problem.text.strip() + "\n",
        begins_program=True,
        stop=(*stop, *_SPECIAL, *_MAIN),
        extraction=extraction.WHOLE,
    )


HUMANEVAL_COMPLETION = _make_completion_form(_HUMANEVAL, "\ndef ", "\nclass ", "\nimport ", "\nfrom ", "\nassert ")
MBPP_COMPLETION = _make_completion_form(_MBPP, '\n"""', "\nassert")
CRUXEVAL_COMPLETION = PromptForm(
    "completion", ("cruxeval-o", "cruxeval-i"), lambda problem: problem.text, stop=("[/ANSWER]",)
)

_MATHEMATICS = ("aime24", "aime25", "math500")
_LIGHTEVAL = (
    "Solve the following math problem efficiently and clearly.  The last line of your response should be of the "
    "following format: 'Therefore, the final answer is: $\\boxed{ANSWER}$. I hope it is correct' (without quotes) "
    "where ANSWER is just the final number or expression that solves the problem. Think step by step before answering."
)
DEEPSCALER = PromptForm("deepscaler", _MATHEMATICS, lambda problem: f"{problem.text} {MATHEMATICS_INSTRUCTION}")
LIGHTEVAL = PromptForm("lighteval", _MATHEMATICS, lambda problem: f"{_LIGHTEVAL}\n\n{problem.text}")
LIGHTEVAL_013_AIME = PromptForm(
    "lighteval-0.13-aime", ("aime24", "aime25"), lambda problem: f"\n{_LIGHTEVAL}\n\n{problem.text}\n"
)
_ANSWER_LINE = (
    'Solve the following problem. The final line of your response MUST be of the following format:\n"ANSWER: $ANSWER" '
    "(without quotes) where $ANSWER is the final answer. Think step by step before answering."
)
LIGHTEVAL_013_MATH500 = PromptForm(
    "lighteval-0.13-math500", ("math500",), lambda problem: f"{_ANSWER_LINE}\n\n{problem.text}", answer_line=True
)
EVALCHEMY = PromptForm(
    "evalchemy", _MATHEMATICS, lambda problem: f"Problem: {problem.text}\nMark your solution with \\boxed\nAnswer:"
)

FORMS = {
    form.name: form
    for form in (
        LCB, DEEPSEEK_R1, DEEPCODER, EVALCHEMY_CODE, EVALPLUS, EVALPLUS_THINKING, DEEPSCALER, LIGHTEVAL,
        LIGHTEVAL_013_AIME, LIGHTEVAL_013_MATH500, EVALCHEMY,
    )
}  # fmt: skip
COMPLETION_FORMS = (HUMANEVAL_COMPLETION, MBPP_COMPLETION, CRUXEVAL_COMPLETION)  # forms for the mode "complete"
