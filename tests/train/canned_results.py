"""Evaluations with answers that are given beforehand, through the parts that `curate evaluate` uses."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from curate.prompt import PromptFormat
from sandbox import Sandbox
from train.engine_options import EngineOptions
from train.evaluation.evaluate import evaluate
from train.evaluation.exercises import read_exercises
from train.evaluation.rescore import build_samples_path
from train.evaluation.result_metadata import collect_suite_metadata, list_sample_dependencies
from train.evaluation.results.result import Result
from train.evaluation.sample_store import SampleStore
from train.sampling.protocol import SampledCompletion, SamplingParams

Answer = Callable[[str, int], str]  # from the id of a problem and the number of a sample to the text of an answer


def evaluated(
    out: Path, box: Sandbox, suite: str, location: Path | str, answer: Answer, *, k: int, **asked: Any
) -> dict[str, Any]:
    """Evaluate canned answers, and write the result with its samples.

    asked   `window` and `max_problems`, as in `read_exercises`

    Returns the content of the result file.
    """
    found = read_exercises(str(location), suite=suite, **asked)
    ids = {json.dumps(exercise.prompt): exercise.id for exercise in found}
    n_sampled: dict[str, int] = dict.fromkeys(ids.values(), 0)

    def sample(prompts: Any) -> Iterator[tuple[int, SampledCompletion]]:
        for index, (prompt, _) in enumerate(prompts):
            id = ids[json.dumps(prompt)]
            yield index, SampledCompletion(answer(id, n_sampled[id]), "stop", 10, n_prompt_tokens=7)
            n_sampled[id] += 1

    prompt, engine, sampling = PromptFormat(), EngineOptions(), SamplingParams()
    settings = list_sample_dependencies("canned", sampling, prompt, engine)
    with SampleStore(build_samples_path(out)) as kept:
        evaluation = evaluate(found, sample, box, k=k, samples=kept, settings=settings)
    result = Result(
        {"name": "canned", "base_url": None},
        collect_suite_metadata(suite, str(location), asked.get("window", ""), found, evaluation.outcomes),
        {"k": k, **sampling.as_table()},
        prompt.as_table(),
        engine.to_vllm_options(),
        0,
        evaluation.outcomes,
        evaluation.tokens,
    )
    result.write(out)
    return result.to_json()


def bits(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the outcomes of the samples by the ids of the problems."""
    return {problem["id"]: problem["bits"] for problem in content["problems"]}
