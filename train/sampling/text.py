"""Conversion of prompts to tokens and of tokens to completions."""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from train.errors import SamplerError
from train.sampling.proof import load_and_prove
from train.sampling.protocol import Engine, Prompt, SampledCompletion, SamplingParams, SeededPrompt, is_prefilled
from train.weights.manifest import Probe

if TYPE_CHECKING:
    from torch import Tensor

log = logging.getLogger(__name__)

# Default of samplers' `template_arguments`: arguments of the model's chat template, such as enable_thinking.
NO_ARGUMENTS: Mapping[str, Any] = MappingProxyType({})
_CONTEXT_TOKENS = 16  # number of the prompt's last tokens that are decoded together with the completion


class TextSampler(Engine):
    """Base class of engines that are also an `UpdatableSampler` (protocol.py).

    model: name of the model, for a warning about arguments that its chat template does not use
    """

    def __init__(self, tokenizer: Any, template_arguments: Mapping[str, Any], model: str) -> None:
        warn_unknown_arguments(tokenizer, template_arguments, model)
        self._tokenizer, self._template_arguments = tokenizer, template_arguments

    def sample(
        self, prompts: Iterable[SeededPrompt], sampling: SamplingParams
    ) -> Iterator[tuple[int, SampledCompletion | ValueError]]:
        return self._sample(enumerate(prompts), sampling)

    def update_weights(
        self, weights: "Iterable[tuple[str, Tensor]]", version: int, probe: Probe | None, max_error: float
    ) -> dict[str, float]:
        return load_and_prove(self, weights, version, probe, max_error)

    def _sample(
        self, prompts: Iterable[tuple[int, SeededPrompt]], sampling: SamplingParams
    ) -> Iterator[tuple[int, SampledCompletion | ValueError]]:
        """Sample (number, prompt) pairs. Abort completions in progress if the caller closes the iterator."""
        waiting = iter(prompts)
        call_id = uuid4().hex[:8]  # distinguishes the keys of concurrent calls
        running: dict[str, tuple[int, Prompt]] = {}
        try:
            while True:
                while len(running) < self.max_concurrency and (item := next(waiting, None)) is not None:
                    number, (prompt, seed) = item
                    key = f"{call_id}-{number}"
                    try:
                        ids = tokenize_prompt(self._tokenizer, prompt, self._template_arguments)
                        self.add(key, tuple(ids), seed, sampling)
                    except ValueError as error:
                        yield number, ValueError(str(error))
                    else:
                        running[key] = number, prompt
                if not running:
                    return
                for key, completion in self.step():
                    number, prompt = running.pop(key)
                    yield number, restore_continuation_text(prompt, completion, sampling.stop, self._decode)
        finally:
            self.abort(running)

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=True))


def tokenize_prompt(tokenizer: Any, prompt: Prompt, arguments: Mapping[str, Any]) -> list[int]:
    """Tokenize a prompt, up to the beginning of the completion.

    Raises SamplerError for a chat if the model has no chat template, and ValueError if the template rejects this chat.
    """
    from jinja2 import TemplateError

    if not isinstance(prompt, list):
        return list(prompt if isinstance(prompt, tuple) else tokenizer.encode(prompt))
    if tokenizer.chat_template is None and "chat_template" not in arguments:
        raise SamplerError(
            f"{tokenizer.name_or_path} has no chat template: it is a base model. Choose a chat model, or type "
            "--prompt-format base, or --mode complete for curate evaluate."
        )
    prefilled = is_prefilled(prompt)
    options = {**arguments, "add_generation_prompt": not prefilled, "continue_final_message": prefilled}
    try:
        return list(tokenizer.apply_chat_template(prompt, tokenize=True, return_dict=False, **options))
    except TemplateError as error:  # for example because the template does not support system prompts
        raise ValueError(f"the model's chat template refuses the messages: {error}") from error


def warn_unknown_arguments(tokenizer: Any, arguments: Mapping[str, Any], model: str) -> None:
    template = arguments.get("chat_template", tokenizer.chat_template)
    text = "\n".join(template.values()) if isinstance(template, Mapping) else str(template or "")
    for name in arguments.keys() - {"chat_template"}:
        if not re.search(rf"\b{re.escape(name)}\b", text):
            log.warning("the chat template of %s does not use %s; the argument has no effect", model, name)


def restore_continuation_text(
    prompt: Prompt, completion: SampledCompletion, stops: Sequence[str], decode: Callable[[Sequence[int]], str]
) -> SampledCompletion:
    """Restore the leading space of a continued text or prefill, which some tokenizers drop in decoding.

    Completions of other prompts stay unchanged.
    """
    if not isinstance(prompt, str) and not is_prefilled(prompt):
        return completion
    before = completion.prompt_ids[-_CONTEXT_TOKENS:]
    known, whole = decode(before), decode((*before, *completion.token_ids))
    if not whole.startswith(known):
        return completion
    return replace(completion, text=truncate_at_stop(whole[len(known) :], stops))


def truncate_at_stop(text: str, stops: Sequence[str]) -> str:
    """Truncate the text before the first stop, as vLLM does. The stop with the smallest end is the first."""
    found = [(start + len(stop), start) for stop in stops if (start := text.find(stop)) >= 0]
    return text[: min(found)[1]] if found else text
