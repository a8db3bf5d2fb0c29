"""What a form of a prompt is: how a problem is put to a model, to the character.

MERGED How the problems of one suite are put to a model, and how its answers are read.

MERGED What a protocol is: for each of its suites, the settings with which published numbers were measured.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from curate.prompt import Chat, PromptFormat
from train.evaluation.extraction import registry as extraction_rules


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


@dataclass(frozen=True, slots=True)
class PromptStyle:
    """form          form of the prompt; None: our own
    skip_chat_template  whether the model continues plain text, without its chat template
    prefill             beginning of the model's own message; empty: what the form says
    answer_suffix       text that follows each answer to a prefilled message when it is judged
    extraction          how the program is found in an answer: see extraction/
    test_seconds        wall time of each test; None: the suite's own limit
    """

    form: PromptForm | None = None
    skip_chat_template: bool = False
    prefill: str = ""
    answer_suffix: str = ""
    extraction: str = extraction_rules.DEFAULT
    test_seconds: float | None = None

    def render(self, prompt: PromptFormat, statement: Statement, default_prompt: Chat) -> RenderedPrompt:
        """Return what the model is asked.

        prompt          its system prompt takes the place of the form's
        default_prompt  the messages of our own form
        """
        wording = RenderedPrompt(default_prompt) if self.form is None else self.form.render(statement)
        if isinstance(wording.prompt, str):
            return wording
        if self.skip_chat_template:
            return RenderedPrompt(wording.prompt[-1]["content"])
        messages = wording.prompt
        if self.form is not None and prompt.system:
            messages = [{"role": "system", "content": prompt.system}, *_without(messages, "system")]
        if not self.prefill:
            return RenderedPrompt(messages, wording.answer_prefix, wording.answer_suffix)
        messages = [*_without(messages, "assistant"), {"role": "assistant", "content": self.prefill}]
        return RenderedPrompt(messages, self.prefill, self.answer_suffix)


def _without(messages: Chat, role: str) -> Chat:
    return [message for message in messages if message["role"] != role]


@dataclass(frozen=True, slots=True)
class SuiteSettings:
    """How a suite is measured. What is not a number here is what `curate evaluate` does without a protocol.

    temperature, top_p  of sampling; there is no top_k
    max_tokens          of an answer, thinking included
    k                   samples of each problem
    form                form of the prompt; None: ours
    stop                further texts that end an answer, beside those of the form
    extraction          how the program is found in an answer, unless the form decides that: see extraction/
    window              first and last day of contests, both included; empty: all
    test_seconds        wall time of each test; None: the suite's own limit
    """

    temperature: float = 0.6
    top_p: float = 0.95
    max_tokens: int = 16384
    k: int = 8
    form: PromptForm | None = None
    stop: tuple[str, ...] = ()
    extraction: str = ""
    window: str = ""
    test_seconds: float | None = None


DEFAULT = SuiteSettings()


@dataclass(frozen=True, slots=True)
class Protocol:
    """name      what users type
    source    whose settings these are, with the version that was read
    settings  by the names of the suites
    """

    name: str
    source: str
    settings: Mapping[str, SuiteSettings]
