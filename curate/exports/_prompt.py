"""The prompts of exported problems, which are the same as in `curate difficulty`."""

import json

from curate.problem import Problem
from curate.prompt import Chat, PromptFormat


def conversation(problem: Problem, prompt: PromptFormat) -> Chat:
    """Return the messages of the conversation about a problem: the system prompt, if there is one, and the question."""
    return prompt.chat(problem.statement, problem.starter_code, problem.tests)


def question(problem: Problem, prompt: PromptFormat) -> str:
    """Return the content of the conversation's last message, without the system prompt."""
    return conversation(problem, prompt)[-1]["content"]


def template_arguments_note(prompt: PromptFormat, remedy: str) -> str:
    """Return what a README says about arguments of the chat template; it is empty if there are none.

    remedy: a sentence that says how the trainer takes them
    """
    if not prompt.template_arguments:
        return ""
    arguments = ", ".join(f"{name} = {json.dumps(value)}" for name, value in prompt.template_arguments.items())
    return (
        f"\nThe prompts are meant for the chat template with {arguments}. Rows cannot hold such arguments, so the "
        f"manifest only records them. {remedy}\n"
    )
