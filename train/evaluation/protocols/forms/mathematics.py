"""How questions of mathematics are put to models. All of these forms are one message of the user."""

from train.evaluation.protocols.prompt_form import PromptForm, RenderedPrompt, Statement, user_prompt

_SUITES = ("aime24", "aime25", "math500")
_LIGHTEVAL = (
    "Solve the following math problem efficiently and clearly.  The last line of your response should be of the "
    "following format: 'Therefore, the final answer is: $\\boxed{ANSWER}$. I hope it is correct' (without quotes) "
    "where ANSWER is just the final number or expression that solves the problem. Think step by step before answering."
)


def _deepscaler(problem: Statement) -> RenderedPrompt:
    return user_prompt(f"{problem.text} Let's think step by step and output the final answer within \\boxed{{}}.")


def _lighteval(problem: Statement) -> RenderedPrompt:
    return user_prompt(f"{_LIGHTEVAL}\n\n{problem.text}")


def _evalchemy(problem: Statement) -> RenderedPrompt:
    return user_prompt(f"Problem: {problem.text}\nMark your solution with \\boxed\nAnswer:")


DEEPSCALER = PromptForm("deepscaler", _SUITES, _deepscaler)
LIGHTEVAL = PromptForm("lighteval", _SUITES, _lighteval)
EVALCHEMY = PromptForm("evalchemy", _SUITES, _evalchemy)
