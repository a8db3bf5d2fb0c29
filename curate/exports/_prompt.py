"""The prompts of exported problems, which are the same as in `curate difficulty`."""

from curate.difficulty.prompt import chat
from curate.problem import Problem


def conversation(problem: Problem) -> list[dict[str, str]]:
    """Return the messages of the conversation about a problem, each with its role and content."""
    return chat(problem.statement, problem.starter_code, problem.tests.entry_point)


def question(problem: Problem) -> str:
    """Return the content of the only message of the conversation."""
    (message,) = conversation(problem)
    return message["content"]
