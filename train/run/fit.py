"""A check whether a run fits the memory of its machines, and a search for values that fit.

The search varies the engines' GPUs, their memory share, and the offload of optimizer moments. `curate train --gpus N`
uses it for keys that CONFIG does not set. If a run does not fit, the error message recommends values.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import psutil
import torch

from train.config import Config, with_overrides
from train.config.read import as_table
from train.errors import ConfigError
from train.learning.policy import load_hf_config
from train.run.memory import GB, Machines, MemoryNeed, divide_gpus, estimate_memory_needs

# Reads the configuration with further values of the form section.key=value. Raises ConfigError.
ReadConfig = Callable[[Sequence[str]], Config]

_MEMORY_SHARES = tuple(percent / 100 for percent in range(90, 25, -5))  # candidates for an engine on the learner's GPU
_SEPARATE_MEMORY_SHARE = 0.9  # of an engine on a separate GPU
_TENSOR_PARALLEL = (1, 2, 4, 8)


def detect_machines(gpus: int | None, gpu_gb: float | None, host_gb: float | None) -> Machines | None:
    """Detect the machines of a run started by this process, all like this one; None if this one has no GPU.

    gpus     number of GPUs of all machines; None: all GPUs, with a learner rank for each rank of torchrun
    gpu_gb   memory of a GPU; None: that of the smallest GPU of this machine
    host_gb  memory of a machine; None: that of this machine

    Raises ConfigError if `gpus` is positive but torch finds no GPU.
    """
    n_local = torch.cuda.device_count()
    if not n_local:
        if gpus:
            raise ConfigError(f"--gpus {gpus}: torch finds no GPU. To plan for another machine, add --dry-run")
        return None
    n_ranks = int(os.environ.get("WORLD_SIZE", "1"))
    n_machines = n_ranks // int(os.environ.get("LOCAL_WORLD_SIZE", n_ranks))
    sizes = (torch.cuda.get_device_properties(number).total_memory for number in range(n_local))
    return Machines(
        gpus or n_local * n_machines,
        gpu_gb or min(sizes) / GB,
        host_gb or psutil.virtual_memory().total / GB,
        ranks=0 if gpus else n_ranks,
    )


def check_ranks(config: Config, machines: Machines) -> None:
    """Raise ConfigError unless torchrun started one rank for each GPU of the learner."""
    n_ranks, _ = divide_gpus(config, machines)
    if n_ranks != (n_started := int(os.environ.get("WORLD_SIZE", "1"))):
        raise ConfigError(
            f"the learner has {n_ranks} of {machines.gpus} GPUs, and {n_started} ranks were started. Type the same "
            f"command after: {build_launch_prefix(n_ranks)}"
        )


def build_launch_prefix(n_ranks: int) -> str:
    """Return the torchrun command that precedes `curate train` on a machine with `n_ranks` learner GPUs."""
    return f"torchrun --nproc-per-node {n_ranks} --no-python"


def fit_config(read: ReadConfig, machines: Machines) -> Config:
    """Return the first candidate configuration that fits the machines, unchanged if possible.

    If none fits, return the last valid candidate, which needs the least memory. Raises ConfigError if the unchanged
    configuration is invalid.
    """
    leanest = read(())
    for changes in _iterate_candidates(leanest, machines):
        with suppress(ConfigError):  # the changes conflict with the user's values, or with the GPUs
            changed = read(changes)
            if not _describe_shortage(list(estimate_memory_needs(changed, machines))):
                return changed
            leanest = changed
    return leanest


def check_memory(config: Config, machines: Machines) -> None:
    """Raise ConfigError if the run does not fit its machines; recommend values that fit, if any."""
    if not (problem := _describe_misfit(config, machines)):
        return
    for start in (config, with_overrides(config, ["model.lora_rank=32"])):
        fitting = fit_config(partial(with_overrides, start), machines)
        if not _describe_misfit(fitting, machines):
            changed = find_changed_values(config, fitting).items()
            values = " ".join(f"--set {name}={json.dumps(value)}" for name, value in changed)
            raise ConfigError(f"{problem} These values fit: {values}")
    raise ConfigError(problem)


def _describe_misfit(config: Config, machines: Machines) -> str:
    try:
        return _describe_shortage(list(estimate_memory_needs(config, machines)))
    except ConfigError as error:
        return f"{error}."


def _describe_shortage(needs: Sequence[MemoryNeed]) -> str:
    for need in needs:
        if need.available and need.total > need.available:
            return (
                f"{need.scope} needs {need.total / GB:.1f} GB and has {need.available / GB:.4g}. {need.advice}, "
                "or use more GPUs."
            )
    return ""


def find_changed_values(before: Config, after: Config) -> Mapping[str, Any]:
    """Return the new values of changed keys, by section.key."""
    old, new = as_table(before), as_table(after)
    return {
        f"{section}.{key}": value
        for section, values in new.items()
        if isinstance(values, dict)
        for key, value in values.items()
        if old[section].get(key) != value
    }


def _iterate_candidates(config: Config, machines: Machines) -> Iterator[tuple[str, ...]]:
    """Yield candidate changes of the configuration, those for the fastest training first."""
    yield ()
    where = config.evaluation.where
    inside = ("evaluation.where=inside", "evaluation.gpus=[]") if where == "own" or machines.gpus == 1 else ()
    offloads: tuple[tuple[str, ...], ...] = ((),) if config.optimizer.offload else ((), ("optimizer.offload=true",))
    if not machines.gpus or (config.rollout.pipeline == "async" and not config.workers.local):
        yield from offloads
    elif machines.gpus == 1:
        # The pipeline "sync" alternates engine and learner, so each can use the memory in turn.
        alone = ("rollout.pipeline=sync", "engine.gpus=[]", "engine.tensor_parallel=1", *inside)
        for offload in offloads:
            yield from ((*alone, *offload, f"engine.memory_share={share}") for share in _MEMORY_SHARES)
    else:
        n_first = machines.first_machine_gpus
        heads = load_hf_config(config.model.path).get_text_config().num_attention_heads
        quarter = max(1, round(n_first / 4))  # DeepCoder and AReaL used a quarter to three quarters for sampling
        numbers = [quarter, *range(quarter + 1, n_first), *range(quarter - 1, 0, -1)]
        for offload in offloads:
            for n_engine_gpus in numbers:
                gpus = list(range(n_first - n_engine_gpus, n_first))
                for parallel in _TENSOR_PARALLEL:
                    if n_engine_gpus % parallel == 0 and heads % parallel == 0:
                        engine = (f"engine.gpus={gpus}", f"engine.tensor_parallel={parallel}")
                        yield (*engine, f"engine.memory_share={_SEPARATE_MEMORY_SHARE}", *inside, *offload)
