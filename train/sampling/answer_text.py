"""The text of an answer: what its tokens say behind the prompt, up to the first text that ends an answer."""

from collections.abc import Callable, Sequence
from dataclasses import replace

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
