"""Sampling on top of an engine that draws step by step."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from uuid import uuid4

from train.sampling.protocol import Engine, Prompt, SampledCompletion, SamplingParams, SeededPrompt
from train.sampling.text import with_continuation_text


def sample(
    engine: Engine,
    prompts: Iterable[tuple[int, SeededPrompt]],
    sampling: SamplingParams,
    tokenize: Callable[[Prompt], Sequence[int]],
    decode: Callable[[Sequence[int]], str],
) -> Iterator[tuple[int, SampledCompletion | ValueError]]:
    """Yield (number, completion) as completions finish; a ValueError stands for a prompt that the model cannot take.

    prompts   numbered; they are read only as far as the engine keeps up
    tokenize  returns the ids of the tokens of a prompt
    decode    returns the text of tokens

    Raises SamplerError if no further samples can be drawn. When the caller stops, what has begun is dropped.
    """
    waiting = iter(prompts)
    call = uuid4().hex[:8]  # an answer of another call never has the same key
    running: dict[str, tuple[int, Prompt]] = {}
    try:
        while True:
            while len(running) < engine.max_concurrency and (item := next(waiting, None)) is not None:
                number, (prompt, seed) = item
                key = f"{call}-{number}"
                try:
                    engine.add(key, tuple(tokenize(prompt)), seed, sampling)
                except ValueError as error:
                    yield number, ValueError(str(error))
                else:
                    running[key] = number, prompt
            if not running:
                return
            for key, completion in engine.step():
                number, prompt = running.pop(key)
                yield number, with_continuation_text(prompt, completion, sampling.stop, decode)
    finally:
        engine.abort(running)
