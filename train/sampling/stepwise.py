"""Sampling on top of an engine that draws step by step."""

from collections.abc import Callable, Iterable, Iterator
from uuid import uuid4

from train.sampling.protocol import Completion, Engine, Sampling, SeededChat


def sample(
    engine: Engine,
    prompts: Iterable[tuple[int, SeededChat]],
    sampling: Sampling,
    ids_of: Callable[[SeededChat], tuple[int, ...]],
) -> Iterator[tuple[int, Completion | ValueError]]:
    """Yield (number, completion) as completions finish; a ValueError stands for a prompt that the model cannot take.

    prompts  numbered; they are read only as far as the engine keeps up
    ids_of   returns the ids of the tokens of a prompt

    Raises SamplerError if no further samples can be drawn. When the caller stops, what has begun is dropped.
    """
    waiting = iter(prompts)
    call = uuid4().hex[:8]  # an answer of another call never has the same key
    running: dict[str, int] = {}
    try:
        while True:
            while len(running) < engine.at_once and (item := next(waiting, None)) is not None:
                number, seeded = item
                key = f"{call}-{number}"
                try:
                    engine.add(key, ids_of(seeded), seeded[1], sampling)
                except ValueError as error:
                    yield number, ValueError(str(error))
                else:
                    running[key] = number
            if not running:
                return
            for key, completion in engine.step():
                yield running.pop(key), completion
    finally:
        engine.drop(running)
