"""What a form of a prompt is: how a problem is put to a model, to the character."""

from collections.abc import Callable
from dataclasses import dataclass

from curate.prompt import Chat


@dataclass(frozen=True, slots=True)
class Statement:
    """A problem as its row states it.

    text          the problem, or the beginning of the program that an answer completes; nothing is stripped
    starter_code  code that an answer must contain; empty: none
    entry_point   the function that tests call; None: the program reads standard input
    """

    text: str
    starter_code: str = ""
    entry_point: str | None = None


@dataclass(frozen=True, slots=True)
class RenderedPrompt:
    """What a model is asked, and the text around its answer that is judged with it; see Exercise."""

    prompt: Chat | str
    answer_prefix: str = ""
    answer_suffix: str = ""


@dataclass(frozen=True, slots=True)
class PromptForm:
    """name        what users type
    suites      the suites whose problems can be put in this form
    render      puts a problem in this form
    stop        texts that end an answer, because the form leads to them
    extraction  how the program is found in an answer, where the form decides that; empty: it does not
    """

    name: str
    suites: tuple[str, ...]
    render: Callable[[Statement], RenderedPrompt]
    stop: tuple[str, ...] = ()
    extraction: str = ""


def user_prompt(text: str) -> RenderedPrompt:
    """Return the wording that consists of one message of the user."""
    return RenderedPrompt([{"role": "user", "content": text}])
