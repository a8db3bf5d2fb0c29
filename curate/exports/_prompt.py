"""How exported problems are put to a model: as `curate difficulty` puts them."""

from curate.difficulty.prompt import chat
from curate.problem import Problem


def conversation(problem: Problem) -> list[dict[str, str]]:
    """Messages of role and content."""
    return chat(problem.statement, problem.starter_code, problem.tests.entry_point)


def question(problem: Problem) -> str:
    """The one message of the conversation."""
    (message,) = conversation(problem)
    return message["content"]
