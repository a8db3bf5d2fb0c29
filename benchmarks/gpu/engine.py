"""vLLM and a learner in one process on one GPU, as in `curate train`.

Version 1 of the weights is loaded first, 2 after the engine has slept, 3 and 4 in the middle of completions.
"""

import random
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from math import exp
from statistics import fmean

import torch
from torch import Tensor

from benchmarks.gpu.learner import ENGINE, GIB, LEARNER, plan_memory
from benchmarks.gpu.setup import CheckEnvironment, make_sequence, open_learner, sample_token_ids, time_call, update
from train.learning.learner import Learner
from train.learning.policy import load_hf_config
from train.learning.sequences import TrainingSequence
from train.rollouts.weight_sync import compare_samples, publish
from train.run.memory import compute_token_cache_bytes
from train.sampling.open_engine import open_engine_in_process
from train.sampling.proof import PARITY_METRIC
from train.sampling.protocol import SampledCompletion, SamplingParams
from train.sampling.sampler_thread import SamplerThread
from train.sampling.vllm import VllmSampler
from train.weights.manifest import Probe

ANY_ERROR = 1e9  # measure only: thresholds.py has the bound
START_SECONDS = 600.0  # above the time limit of the check
TRAINED_COMPLETIONS = 64  # of the sampled completions


def main(check: CheckEnvironment) -> None:
    run = check.make_config()
    learner, before = open_learner(run), measure_free_bytes()
    engines: list[VllmSampler] = []

    def start() -> VllmSampler:
        engine = open_engine_in_process(run)
        assert isinstance(engine, VllmSampler)
        engines.append(engine)
        return engine

    seconds, sampler = time_call(lambda: SamplerThread(start, seconds=START_SECONDS))
    pair = Pair(check, learner, sampler, engines[0])
    cache, used = pair.engine._engine.vllm_config.cache_config, before - measure_free_bytes()
    n_tokens = cache.num_gpu_blocks * cache.block_size
    check.report(start_seconds=seconds, cache_tokens=n_tokens)
    with check.catch_errors():
        planned, text_config = plan_memory(run, ENGINE), load_hf_config(run.model.path).get_text_config()
        held = planned["weights"] + n_tokens * compute_token_cache_bytes(text_config, 2)
        share = 0.0 if check.on_cpu else run.engine.memory_share * torch.cuda.mem_get_info()[1]
        check.report(overhead_of_plan=(share - held) / planned["overhead"] if share else None)
    with check.catch_errors():
        seconds, metrics = time_call(lambda: publish(learner, sampler, 1, pair.make_probe(), max_error=ANY_ERROR))
        check.report(load_seconds=seconds, prompt_parity=metrics[PARITY_METRIC])
    with check.catch_errors():
        check.report(sampled_parity=pair.measure_parity(1))
    tokens_per_second, answers = pair.sample()
    check.report(tokens_per_second=tokens_per_second)
    batch = [
        make_sequence(each.prompt_ids, each.token_ids, random.choice((-1.0, 1.0)), each.logprobs)
        for each in answers[:TRAINED_COMPLETIONS]
    ]
    with check.catch_errors():
        metrics = update(learner, batch)
        check.report(mismatch_kl=metrics["mismatch/kl"], grad_norm=metrics["grad_norm"], skipped=metrics["skipped"])
    with check.catch_errors():
        pair.take_turns(batch, used, plan_memory(run, LEARNER)["sleeping engine"])
    with check.catch_errors():
        pair.train_while_sampling(batch, tokens_per_second)
    with check.catch_errors():
        pair.load_in_flight()
    sampler.close()
    learner.close()


class Pair:
    """A learner and an engine, which runs in its SamplerThread."""

    def __init__(self, check: CheckEnvironment, learner: Learner, sampler: SamplerThread, engine: VllmSampler) -> None:
        self.check, self.learner, self.sampler, self.engine = check, learner, sampler, engine
        rng, sizes = random.Random(0), check.sizes
        self.prompts = [sample_token_ids(rng, sizes.shape, sizes.prompt_tokens // 2) for _ in range(sizes.groups)]

    def sample(self) -> tuple[float, list[SampledCompletion]]:
        """Return tokens per second, and all completions of the prompts."""
        seeded = [(ids, seed) for ids in self.prompts for seed in range(self.check.sizes.group_completions)]
        sampling = SamplingParams(1.0, 1.0, self.check.sizes.completion_tokens, logprobs=True)
        began = time.monotonic()
        answers = [answer for _, answer in self.sampler.sample(seeded, sampling)]
        seconds = time.monotonic() - began  # without concurrent updates
        completions = [answer for answer in answers if isinstance(answer, SampledCompletion)]
        assert len(completions) == len(seeded), answers
        return sum(completion.n_tokens for completion in completions) / seconds, completions

    def measure_parity(self, version: int) -> float:
        """Return the parity of engine and learner on newly sampled tokens."""
        limits = {"temperature": 1.0, "max_error": ANY_ERROR}
        return compare_samples(self.learner, self.sampler, version, self.prompts, **limits)[PARITY_METRIC]

    def make_probe(self) -> Probe:
        """Return all tokens but the first of each prompt, with the learner's log-probabilities."""
        sequences = [make_sequence(ids[:1], ids[1:]) for ids in self.prompts]
        by_learner = self.learner.compute_logprobs(sequences, temperature=1.0)
        return Probe(tuple(self.prompts), tuple(tuple(logp_T.tolist()) for logp_T in by_learner))

    def take_turns(self, batch: Sequence[TrainingSequence], engine_bytes: int, planned_sleeping_bytes: float) -> None:
        """Put the engine to sleep during an update, and wake it with the new weights.

        engine_bytes            allocated by the engine at its start
        planned_sleeping_bytes  of a sleeping engine, by the plan
        """
        on_cpu, before = self.check.on_cpu, measure_free_bytes()
        self.sampler.sleep()
        lent = measure_free_bytes() - before
        kept = (engine_bytes - lent) / planned_sleeping_bytes
        self.check.report(lent_gib=None if on_cpu else lent / GIB, sleeping_of_plan=None if on_cpu else kept)
        update(self.learner, batch)
        probe = self.make_probe()
        seconds, _ = time_call(lambda: publish(self.learner, self.sampler, 2, probe, max_error=ANY_ERROR))
        self.check.report(wake_seconds=seconds, woken_parity=self.measure_parity(2))
        self.check.report(not_regained_gib=None if on_cpu else (before - measure_free_bytes()) / GIB)

    def train_while_sampling(self, batch: Sequence[TrainingSequence], rate_alone: float) -> None:
        """Make updates while the engine samples, as in one-off.

        rate_alone: tokens per second of the engine without concurrent updates
        """
        seconds, _ = time_call(lambda: update(self.learner, batch))
        speeds: list[float] = []
        sampling = threading.Thread(target=lambda: speeds.append(self.sample()[0]), daemon=True)
        began, n_updates = time.monotonic(), 0
        sampling.start()
        while sampling.is_alive():
            time_call(lambda: update(self.learner, batch))
            n_updates += 1
        kept = speeds[0] / rate_alone, n_updates * seconds / (time.monotonic() - began)
        self.check.report(sampling_kept=kept[0], training_kept=kept[1], overlap_gain=sum(kept))

    def load_in_flight(self) -> None:
        """Start completions with noisy weights, and load the learner's when half of the tokens are sampled."""
        n_tokens, seconds = self.check.sizes.completion_tokens // 2, []
        sampling = SamplingParams(1.0, 1.0, n_tokens, logprobs=True)

        def sample_with_load() -> list[SampledCompletion]:
            self.engine.load(_add_noise(self.learner.export_weights()), 3)
            prompts = [ids for ids in self.prompts for _ in range(2)]
            for number, ids in enumerate(prompts):
                self.engine.add(str(number), ids, number, sampling)
            answers: list[SampledCompletion] = []
            n_steps = 0
            while len(answers) < len(prompts):
                answers += [answer for _, answer in self.engine.step()]
                n_steps += 1
                if n_steps == n_tokens // 2:
                    seconds.append(time_call(lambda: self.engine.load(self.learner.export_weights(), 4))[0])
            return answers

        # A few completions end before the load.
        answers = [each for each in self.sampler._call(sample_with_load) if set(each.versions) == {3, 4}]
        by_learner = self.learner.compute_logprobs([make_sequence(each.prompt_ids, each.token_ids) for each in answers])
        errors: dict[int, list[list[float]]] = {3: [], 4: []}  # by version, completion and token
        for answer, logp_T in zip(answers, by_learner, strict=True):
            tokens = list(zip(answer.versions, answer.logprobs, logp_T.tolist(), strict=True))
            for version, by_completion in errors.items():
                by_completion.append(
                    [exp(min(abs(a - b), 50.0)) for sampled_by, a, b in tokens if sampled_by == version]
                )
        before, after = ([error for by_token in errors[version] for error in by_token] for version in (3, 4))
        self.check.report(flight_load_seconds=seconds[0], flight_parity=fmean(after), flight_contrast=fmean(before))
        self.check.report(flight_first_parity=fmean(by_token[0] for by_token in errors[4]))


def _add_noise(weights: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    """Add normal noise to each weight, with the weight's standard deviation."""
    for name, weight in weights:
        yield name, weight + weight.std() * torch.randn_like(weight)


def measure_free_bytes() -> int:
    """Empty torch's cache, and return the free bytes of the GPU; 0 without GPU."""
    if not torch.cuda.is_available():
        return 0
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return torch.cuda.mem_get_info()[0]
