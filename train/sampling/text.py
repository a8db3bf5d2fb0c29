"""The text of an answer: what its tokens say behind the prompt, up to the first text that ends an answer.

MERGED The tokens of a prompt: those that a model's chat template makes of a chat, or those of a text.

MERGED Whether a model has a chat template. Base models have none.
"""

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from train.errors import SamplerError
from train.sampling.protocol import Prompt, SampledCompletion, is_prefilled

_BEFORE = 16  # tokens of the prompt that are decoded together with those of the answer


def truncate_at_stop(text: str, stops: Sequence[str]) -> str:
    """Return the text up to the stop that is complete first, as vLLM cuts it."""
    found = [(place + len(stop), place) for stop in stops if (place := text.find(stop)) >= 0]
    return text[: min(found)[1]] if found else text


def with_continuation_text(
    prompt: Prompt, answer: SampledCompletion, stops: Sequence[str], decode: Callable[[Sequence[int]], str]
) -> SampledCompletion:
    """Return the answer with the text that continues the prompt, if the prompt is a text or a prefill.

    decode  returns the text of tokens. At the beginning, some tokenizers leave out a space, which would be missing
            between the prompt and the answer: a line of Python would be indented less than the next one.
    """
    if not isinstance(prompt, str) and not is_prefilled(prompt):
        return answer
    before = answer.prompt_ids[-_BEFORE:]
    known, whole = decode(before), decode((*before, *answer.token_ids))
    return replace(answer, text=truncate_at_stop(whole[len(known) :], stops)) if whole.startswith(known) else answer


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


_FILES = ("chat_template.jinja", "chat_template.json")
_SETTINGS = "tokenizer_config.json"


def check_chat_template(model: str, revision: str | None = None) -> None:
    """Raise SamplerError if the files of a model say that it has no chat template.

    Nothing is loaded or fetched: a model on the Hub whose files are not here yet is not checked.
    """
    settings = _file(model, _SETTINGS, revision)
    if settings is None or any(_file(model, name, revision) for name in _FILES):
        return
    try:
        template = json.loads(settings.read_text(encoding="utf-8")).get("chat_template")
    except (OSError, ValueError, AttributeError):
        return  # the engine will say more about such a file
    if not template:
        raise SamplerError(
            f"{model} has no chat template, so it cannot be asked in a chat: it is a base model. Give --mode complete, "
            "or the tokenizer of a model of chat: --engine tokenizer=NAME."
        )


def _file(model: str, name: str, revision: str | None) -> Path | None:
    """Return a file of a model; None if it is not on this machine."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder / name if (folder / name).is_file() else None
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(model, name, revision=revision)
    except HFValidationError:
        return None
    return Path(found) if isinstance(found, str) else None
