"""The tokens of a prompt: those that a model's chat template makes of a chat."""

import logging
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from curate.prompt import Chat

log = logging.getLogger(__name__)

NO_ARGUMENTS: Mapping[str, Any] = MappingProxyType({})


def prompt_ids(tokenizer: Any, prompt: Chat | tuple[int, ...], arguments: Mapping[str, Any]) -> list[int]:
    """Return the ids of a prompt's tokens, up to the place where the answer begins.

    prompt     a chat, or the ids themselves
    tokenizer  a tokenizer of transformers with a chat template
    arguments  further arguments of the chat template, such as enable_thinking
    """
    if isinstance(prompt, tuple):
        return list(prompt)
    ids: list[int] = tokenizer.apply_chat_template(
        prompt, add_generation_prompt=True, tokenize=True, return_dict=False, **arguments
    )
    return ids


def warn_of_unknown(tokenizer: Any, arguments: Mapping[str, Any], model: str) -> None:
    """Warn about arguments that the chat template does not mention, and which therefore change nothing."""
    template = tokenizer.chat_template
    text = "\n".join(template.values()) if isinstance(template, Mapping) else str(template or "")
    for name in arguments:
        if not re.search(rf"\b{re.escape(name)}\b", text):
            log.warning("the chat template of %s does not use %s, so that argument changes nothing", model, name)
