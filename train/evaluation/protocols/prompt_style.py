"""How the problems of one suite are put to a model, and how its answers are read."""

from dataclasses import dataclass

from curate.prompt import Chat, PromptFormat
from train.evaluation.extraction.registry import DEFAULT
from train.evaluation.protocols.prompt_form import PromptForm, RenderedPrompt, Statement


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
    extraction: str = DEFAULT
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
