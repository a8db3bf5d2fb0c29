"""The text of `curate train --dry-run`: a run's steps, data and memory."""

import json
from collections import Counter
from collections.abc import Iterator

from curate.dataset.dataset import Dataset, translate_read_errors
from curate.dataset.integrity import check_trusted
from curate.dataset.location import resolve_dataset_folder
from curate.prompt import PromptFormat
from curate.trust import TrustPolicy, format_exclusions
from train.config import Config, DataConfig
from train.config.checks import find_config_warnings
from train.rollouts.prompt_dataset import ProblemKinds, describe_unverified_rows, is_prompt_file, read_problems
from train.rollouts.rewards import check_scorable
from train.run.fit import build_launch_prefix, check_memory
from train.run.memory import (
    Machines,
    compute_row_tokens,
    divide_gpus,
    estimate_memory_needs,
    estimate_run_memory,
    exclude_offloaded_moments,
    format_memory_needs,
)
from train.run.pending_evaluation import read_suites

_RANKS = (1, 2, 4, 8)


def plan(config: Config, machines: Machines | None = None) -> Iterator[str]:
    """Yield the lines of the plan.

    machines: machines of the run; None: list the learner's memory for several numbers of GPUs

    Raises CurateError, ConfigError or LearnerError if the run could not start or does not fit on these machines.
    """
    rollout, optimizer = config.rollout, config.optimizer
    batch = rollout.prompts * rollout.completions
    yield f"model      {config.model.path}, {config.model.dtype}, " + (
        f"LoRA of rank {config.model.lora_rank}" if config.model.lora_rank else "all weights"
    )
    for number, (dataset, weight) in enumerate(config.data.list_datasets()):
        yield from _describe_data(
            dataset, config, _format_share(config.data, weight), "           " if number else "data       "
        )
    yield from _describe_prompt(config.prompt)
    if packages := config.sandbox.to_sandbox_options().find_packages():
        yield f"packages   {', '.join(map(str, packages))}"
    staleness = f", completions at most {rollout.staleness} updates stale" if rollout.pipeline == "async" else ""
    yield (
        f"batch      {rollout.prompts} prompts x {rollout.completions} completions = {batch}, "
        f"{optimizer.minibatches * optimizer.epochs} updates with each, pipeline {rollout.pipeline}{staleness}"
    )
    for number, stage in enumerate(config.stages):
        ends = [f"until step {stage.until_step}"] * bool(stage.until_step)
        ends += [f"until {stage.until_clipped:.0%} are truncated"] * bool(stage.until_clipped)
        yield (
            f"stage {number}    completions of at most {stage.max_tokens:,} tokens, at most "
            f"{batch * stage.max_tokens:,} in a batch" + "".join(f", {end}" for end in ends)
        )
    yield f"steps      {config.run.steps}, a checkpoint every {config.run.checkpoint_steps}"
    yield from _describe_evaluations(config)
    yield from (f"note       {warning}" for warning in find_config_warnings(config))
    if machines is None:
        yield from _describe_memory(config)
    else:
        needs = list(estimate_memory_needs(config, machines))
        yield f"memory     rows of at most {compute_row_tokens(config):,} tokens, GB:"
        yield from (f"           {line}" for line in format_memory_needs(needs))
        check_memory(config, machines)
        n_ranks, _ = divide_gpus(config, machines)
        if 1 < n_ranks < machines.gpus <= machines.first_machine_gpus:
            yield f"start      {build_launch_prefix(n_ranks)} curate train ..., without --dry-run"


def _format_share(data: DataConfig, weight: float) -> str:
    total = sum(each for _, each in data.list_datasets())
    return f", {weight / total:.0%} of the prompts" if data.mixture else ""


def _describe_data(dataset: str, config: Config, share: str, head: str) -> Iterator[str]:
    if is_prompt_file(dataset):
        kinds, n_prompts = ProblemKinds(), 0
        for problem in read_problems(dataset, TrustPolicy(), PromptFormat(), Counter(), Counter()):
            kinds, n_prompts = kinds | problem.kind, n_prompts + 1
        check_scorable(config.reward, kinds)
        yield f"{head}{dataset}, {n_prompts:,} prompts{share}"
        return
    folder, trust = resolve_dataset_folder(dataset), TrustPolicy.from_choices(config.data.include)
    with translate_read_errors(folder):
        stored = Dataset(folder).require_problems()
        left_out = stored.find_exclusion_reasons(trust)
        rows = stored.iter_rows("data", ("id", "source", "verified", "expected_answer"))
        trusted = [row for row in rows if row["id"] not in left_out]
        unverified = Counter(row["source"] for row in trusted if not row["verified"])
        n_with_answer = sum(bool(row["expected_answer"]) for row in trusted)
    check_scorable(config.reward, ProblemKinds(tests=n_with_answer < len(trusted), answers=n_with_answer > 0))
    check_trusted(folder, trust)
    yield f"{head}{dataset}, {len(stored) - len(left_out):,} of {len(stored):,} problems{share}"
    yield from (f"           {line}" for line in format_exclusions(Counter(left_out.values())))
    if unverified:
        yield f"warning    {describe_unverified_rows(unverified, config.data.include)}"


def _describe_evaluations(config: Config) -> Iterator[str]:
    settings, suites = config.evaluation, read_suites(config)
    if not suites:
        yield "evaluation none; to evaluate on a dataset during the run: --set evaluation.dataset=DATASET"
    for number, suite in enumerate(suites):
        head = "           " if number else "evaluation "
        yield f"{head}{suite.name}, {len(suite.exercises):,} problems x {settings.k}"
    if suites:
        times = [f"every {settings.every_steps} steps"] * bool(settings.every_steps)
        times += [f"every {settings.every_minutes:g} minutes"] * bool(settings.every_minutes)
        where = {"inside": "within the step", "idle": "with the idle engine", "own": "with a separate engine"}
        best = f"; the best by {settings.keep_best} is kept" if settings.keep_best else ""
        yield f"           {', '.join(['at the start and the end', *times])}, {where[settings.where]}{best}"


def _describe_prompt(prompt: PromptFormat) -> Iterator[str]:
    """Describe how a prompt format differs from the default; yield nothing if it does not."""
    parts = ["a system prompt"] * bool(prompt.system) + ["a template"] * bool(prompt.template)
    parts += ['format = "base"'] * (prompt.format == "base")
    parts += [f"{name} = {json.dumps(value)}" for name, value in prompt.template_arguments.items()]
    if parts:
        yield f"prompt     with {', '.join(parts)}"


def _describe_memory(config: Config) -> Iterator[str]:
    memories = {
        ranks: exclude_offloaded_moments(estimate_run_memory(config, ranks=ranks), offload=config.optimizer.offload)
        for ranks in (n * config.ranks.context for n in _RANKS)
    }
    one, *_ = memories.values()
    yield (
        f"memory     of the learner, {one.parameters:,} parameters, {one.trainable_parameters:,} of them "
        f"trained, rows of at most {compute_row_tokens(config):,} tokens, GiB for each GPU:"
    )
    yield f"           {'GPUs':>5}" + "".join(f"{name:>12}" for name in (*one.bytes_by_purpose, "together"))
    for ranks, memory in memories.items():
        numbers = [*memory.bytes_by_purpose.values(), memory.total]
        yield f"           {ranks:>5}" + "".join(f"{number / 2**30:>12.2f}" for number in numbers)
    if not config.engine.gpus:
        yield f"           the engine on the same GPU takes {config.engine.memory_share:.0%} of its memory in addition"
    yield "           to check the memory of all roles on given machines: --dry-run --gpus 8 --gpu-gb 80 --host-gb 1000"
