"""The tokens of a prompt: those that a model's chat template makes of a chat, or those of a text."""

import logging
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from train.errors import SamplerError
from train.sampling.protocol import Prompt, is_prefilled

log = logging.getLogger(__name__)

NO_ARGUMENTS: Mapping[str, Any] = MappingProxyType({})


def tokenize_prompt(tokenizer: Any, prompt: Prompt, arguments: Mapping[str, Any]) -> list[int]:
    """Return the ids of a prompt's tokens, up to the place where the answer begins.

    tokenizer  a tokenizer of transformers; it needs a chat template for chats only
    arguments  further arguments of the chat template, such as enable_thinking

    Raises SamplerError for a chat if there is no template, and ValueError if the template refuses this chat.
    """
    from jinja2 import TemplateError

    if isinstance(prompt, tuple):
        return list(prompt)
    ids: list[int]
    if isinstance(prompt, str):
        ids = tokenizer.encode(prompt)
        return ids
    if tokenizer.chat_template is None:
        raise SamplerError(
            f"{tokenizer.name_or_path} has no chat template: it is a base model. Give one that was trained to answer, "
            "or give curate evaluate --mode complete."
        )
    prefilled = is_prefilled(prompt)
    try:
        ids = tokenizer.apply_chat_template(
            prompt,
            add_generation_prompt=not prefilled,
            continue_final_message=prefilled,
            tokenize=True,
            return_dict=False,
            **arguments,
        )
    except TemplateError as error:  # templates refuse what a model was not trained on, such as a system prompt
        raise ValueError(f"the model's chat template refuses the messages: {error}") from error
    return ids


def warn_unknown_arguments(tokenizer: Any, arguments: Mapping[str, Any], model: str) -> None:
    """Warn about arguments that the chat template does not mention, and which therefore change nothing."""
    template = tokenizer.chat_template
    text = "\n".join(template.values()) if isinstance(template, Mapping) else str(template or "")
    for name in arguments:
        if not re.search(rf"\b{re.escape(name)}\b", text):
            log.warning("the chat template of %s does not use %s, so that argument changes nothing", model, name)
