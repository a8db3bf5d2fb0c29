"""vLLM on a GPU: its speed, the proof of new weights, new weights in the midst of answers, and sleep and wake.

The log-probabilities of each token must be those that transformers gives under the version that drew the token.
"""

import os
import random
import time
from typing import Any

import torch

from benchmarks.gpu import models
from benchmarks.gpu.outcome import need_vllm, print_figures
from train.sampling.protocol import SamplingParams

ANSWERS = 256
MAX_ERROR = 0.05  # mean |difference of log-probabilities| in half precision


def speed(engine: Any) -> dict[str, float]:
    """Draw many answers at once, and return tokens per second."""
    prompts = [(tuple(range(3, 300)), seed) for seed in range(ANSWERS)]
    began, tokens = time.monotonic(), 0
    for _, answer in engine.sample(prompts, SamplingParams(1.0, 1.0, 512, logprobs=True)):
        tokens += answer.n_tokens
    return {"tokens_per_second": round(tokens / (time.monotonic() - began))}


def interrupted(engine: Any, causal: Any) -> dict[str, float]:
    """Load new weights twice while answers run, and compare every token with transformers under its version."""
    rng, versions = random.Random(0), {}
    for version in (1, 2, 3):
        versions[version] = {name: weight + 0.02 * weight.std() * version for name, weight in _weights(causal)}
    engine.update_weights(versions[1].items(), 1, None, 1.05)
    prompts = [tuple(rng.randrange(3, 250) for _ in range(50)) for _ in range(16)]
    for number, prompt in enumerate(prompts):
        engine.add(str(number), prompt, number, SamplingParams(1.0, 1.0, 200, logprobs=True))
    answers, steps = [], 0
    while len(answers) < len(prompts):
        answers += [answer for _, answer in engine.step()]
        steps += 1
        if steps in (60, 120):
            engine.load(versions[1 + steps // 60].items(), 1 + steps // 60)
    seen = {version for answer in answers for version in answer.versions}
    assert seen == {1, 2, 3}, seen
    errors = [_error(answer, causal, versions) for answer in answers]
    assert max(errors) < MAX_ERROR, errors
    return {"logp_difference_mean": round(max(errors), 4)}


def slept(engine: Any, causal: Any) -> dict[str, float]:
    """Lend the memory to a learner, take it back with new weights, and prove them."""
    before = torch.cuda.mem_get_info()[0]
    engine.sleep()
    lent = torch.cuda.mem_get_info()[0] - before
    began = time.monotonic()
    engine.update_weights(_weights(causal), 4, None, 1.05)
    assert lent > 0, lent
    return {"lent_gib": round(lent / 2**30, 1), "wake_seconds": round(time.monotonic() - began, 2)}


def _weights(causal: Any) -> list[tuple[str, torch.Tensor]]:
    return [(name, weight.detach()) for name, weight in causal.named_parameters()]


@torch.no_grad()
def _error(answer: Any, causal: Any, versions: dict[int, dict[str, torch.Tensor]]) -> float:
    differences = []
    for version in sorted(set(answer.versions)):
        causal.load_state_dict(versions[version], strict=False)
        ids = torch.tensor([answer.prompt_ids + answer.token_ids], device="cuda")
        logp = causal(ids).logits[0, len(answer.prompt_ids) - 1 : -1].float().log_softmax(1)
        chosen = logp.gather(1, torch.tensor(answer.token_ids, device="cuda")[:, None])[:, 0].tolist()
        differences += [
            abs(mine - its)
            for mine, its, drawn in zip(chosen, answer.logprobs, answer.versions, strict=True)
            if drawn == version
        ]
    return sum(differences) / len(differences)


def main() -> None:
    need_vllm()
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    from transformers import AutoModelForCausalLM

    from train.sampling.vllm import VllmSampler

    path = models.folder(models.SIX_HUNDRED_MILLION)
    engine = VllmSampler(path, max_model_len=4096, gpu_memory_utilization=0.5, enable_sleep_mode=True, dtype="bfloat16")
    causal: Any = AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16).to("cuda")
    figures = {**speed(engine), **interrupted(engine, causal), **slept(engine, causal)}
    engine.close()
    print_figures(**figures)


if __name__ == "__main__":
    main()
