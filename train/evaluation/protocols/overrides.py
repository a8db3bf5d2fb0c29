"""What a user gives instead of what a protocol says."""

from dataclasses import dataclass

from curate.errors import CurateError
from curate.prompt import PromptFormat

CHAT, COMPLETE = "chat", "complete"


@dataclass(frozen=True, slots=True)
class ProtocolOverrides:
    """What a user gives instead of what a protocol says; None: nothing. The names are those of Setting.

    form     the name of a form, or OWN
    mode     CHAT or COMPLETE
    prefill  beginning of the model's own message
    """

    k: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    window: str | None = None
    stop: tuple[str, ...] | None = None
    extraction: str | None = None
    form: str | None = None
    mode: str | None = None
    prefill: str | None = None


def check_overrides(overrides: ProtocolOverrides, prompt: PromptFormat) -> None:
    """Raise CurateError for what contradicts itself."""
    if overrides.mode == COMPLETE:
        given = {
            "--system": prompt.system,
            "--prefill": overrides.prefill,
            "--template-arg": prompt.template_arguments,
            "--form": overrides.form,
        }
        for option, value in given.items():
            if value:
                raise CurateError(
                    f"{option} is for chats, and with --mode complete the model continues plain text. "
                    f"Leave {option} out, or give --mode chat."
                )
    if overrides.form and prompt.template:
        raise CurateError("--form and --template both say how the model is asked. Give one of them.")
    if overrides.prefill == "":
        raise CurateError("--prefill is empty. For models that think first, give --form evalplus-thinking.")
