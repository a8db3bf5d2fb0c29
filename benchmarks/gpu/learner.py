"""An update of the 1.5B model with rows of 20K tokens: speed, memory compared with the plan, and the snapshot."""

import random
from collections.abc import Sequence

import psutil
import torch

from benchmarks.gpu.setup import CheckEnvironment, make_sequence, open_learner, sample_token_ids, time_call, update
from train.config import Config
from train.learning.flops import count_forward_flops, count_training_flops
from train.learning.learner import Learner
from train.learning.policy import load_hf_config
from train.learning.sequences import TrainingSequence
from train.run.memory import GB, Machines, estimate_memory_needs
from train.run.step_metrics import get_peak_flops

ROWS = (1, 1, 8, 8)  # completions in each row
GIB = 2**30
LEARNER, ENGINE, HOST = "each of 1 GPUs", "engine on that GPU", "first machine"  # scopes in a memory plan
_NOT_OF_LEARNER = ("overhead", "sleeping engine")  # purposes in the scope LEARNER that torch does not allocate


def main(check: CheckEnvironment) -> None:
    run, sizes = check.make_config(), check.sizes
    seconds, learner = time_call(lambda: open_learner(run))
    check.report(load_seconds=seconds)
    batch = make_full_rows(check, ROWS)
    lengths = [(sizes.prompt_tokens, [(sizes.row_tokens - sizes.prompt_tokens) // n] * n) for n in ROWS]
    n_tokens = sum(prompt + sum(answers) for prompt, answers in lengths)
    with check.catch_errors():
        learner.compute_logprobs(batch[:1])  # warm-up, which selects kernels
        seconds, by_learner = time_call(lambda: learner.compute_logprobs(batch))
        check.report(forward_tokens_per_second=n_tokens / seconds)
        pairs = zip(batch, by_learner, strict=True)
        batch = [make_sequence(each.prompt_ids, each.token_ids, each.reward, logp_T.tolist()) for each, logp_T in pairs]
    with check.catch_errors():
        seconds, metrics = time_update(learner, batch)
        check.report(update_tokens_per_second=n_tokens / seconds, repeated_kl=metrics["mismatch/kl"])
        check.report(grad_norm=metrics["grad_norm"], skipped=metrics["skipped"])
        flops = count_training_flops(count_forward_flops(load_hf_config(run.model.path)), run).compute_total(lengths)
        peak = 0.0 if check.on_cpu else get_peak_flops(torch.cuda.get_device_name())
        check.report(update_mfu=flops / seconds / peak if peak else None)
    with check.catch_errors():
        report_peak(check, run)
        planned = sum(size for purpose, size in plan_memory(run, LEARNER).items() if purpose != "sleeping engine")
        free, total = (0, 0) if check.on_cpu else torch.cuda.mem_get_info()
        check.report(device_of_plan=(total - free) / planned if total else None)
    with check.catch_errors():
        free = psutil.virtual_memory().available
        check.report(first_hold_seconds=time_call(learner.snapshot)[0])
        held = None if check.on_cpu else free - psutil.virtual_memory().available
        check.report(held_of_plan=held and held / (plan_memory(run, HOST)["checkpoint copies"] / 2))
        update(learner, batch[:1])
        check.report(hold_seconds=time_call(learner.snapshot)[0])
    learner.close()


def make_full_rows(check: CheckEnvironment, rows: Sequence[int]) -> list[TrainingSequence]:
    """Return random completions that fill packed rows.

    rows: number of completions in each
    """
    rng, sizes, made = random.Random(0), check.sizes, []
    for n_completions in rows:
        prompt = sample_token_ids(rng, sizes.shape, sizes.prompt_tokens)
        answers = (
            sample_token_ids(rng, sizes.shape, (sizes.row_tokens - len(prompt)) // n_completions)
            for _ in range(n_completions)
        )
        made += [make_sequence(prompt, answer, rng.choice((-1.0, 1.0))) for answer in answers]
    return made


def time_update(learner: Learner, batch: Sequence[TrainingSequence]) -> tuple[float, dict[str, float]]:
    """Make two updates; return the seconds of the second and the metrics of the first.

    The peak memory is reset before the second one.
    """
    metrics = update(learner, batch)
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    return time_call(lambda: update(learner, batch))[0], metrics


def report_peak(check: CheckEnvironment, run: Config) -> None:
    """Report the peak of torch's memory against the plan for the learner alone."""
    planned = sum(size for purpose, size in plan_memory(run, LEARNER).items() if purpose not in _NOT_OF_LEARNER)
    peak = None if check.on_cpu else torch.cuda.max_memory_allocated()
    check.report(peak_gib=peak and peak / GIB, peak_of_plan=peak and peak / planned)


def plan_memory(run: Config, scope: str) -> dict[str, float]:
    """Return the bytes that `curate train` plans for a scope, by purpose."""
    gpu_gb = torch.cuda.get_device_properties(0).total_memory / GB if torch.cuda.is_available() else 80.0
    needs = estimate_memory_needs(run, Machines(1, gpu_gb))
    return next(need.bytes_by_purpose for need in needs if need.scope == scope)
