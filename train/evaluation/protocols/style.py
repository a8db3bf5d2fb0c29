"""How the problems of one suite are put to a model, and how its answers are read."""

from dataclasses import dataclass

from curate.prompt import Chat, PromptFormat
from train.evaluation.extraction.named import USUAL
from train.evaluation.protocols.form import Form, Statement, Wording


@dataclass(frozen=True, slots=True)
class Style:
    """form          form of the prompt; None: our own
    plain         whether the model continues plain text, without its chat template
    prefill       beginning of the model's own message; empty: what the form says
    after         text that follows each answer to a prefilled message when it is judged
    extraction    how the program is found in an answer: see extraction/
    test_seconds  wall time of each test; None: the suite's own limit
    """

    form: Form | None = None
    plain: bool = False
    prefill: str = ""
    after: str = ""
    extraction: str = USUAL
    test_seconds: float | None = None

    def wording(self, prompt: PromptFormat, statement: Statement, own: Chat) -> Wording:
        """Return what the model is asked.

        prompt   its system prompt takes the place of the form's
        own      the messages of our own form
        """
        wording = Wording(own) if self.form is None else self.form.wording(statement)
        if isinstance(wording.asked, str):
            return wording
        if self.plain:
            return Wording(wording.asked[-1]["content"])
        messages = wording.asked
        if self.form is not None and prompt.system:
            messages = [{"role": "system", "content": prompt.system}, *_without(messages, "system")]
        if not self.prefill:
            return Wording(messages, wording.before, wording.after)
        messages = [*_without(messages, "assistant"), {"role": "assistant", "content": self.prefill}]
        return Wording(messages, self.prefill, self.after)


def _without(messages: Chat, role: str) -> Chat:
    return [message for message in messages if message["role"] != role]
