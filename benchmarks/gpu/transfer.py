"""New weights for an engine on another GPU, through the memory of the machine and over NCCL, each verified."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from benchmarks.gpu.setup import CheckEnvironment, time_call
from train.config import EngineConfig
from train.sampling.engine_processes import EngineProcesses
from train.sampling.proof import CHECKED_SHARE_METRIC
from train.weights.nccl import BACKEND


def main(check: CheckEnvironment) -> None:
    model: Any = AutoModelForCausalLM.from_pretrained(check.model, dtype=torch.bfloat16)
    causal = model.to("cuda:0")
    gigabytes = sum(weight.nbytes for weight in causal.parameters()) / 1e9
    settings = EngineConfig(gpus=(1,), transfer="nccl", load_seconds=120, sync_seconds=60)
    options = {"dtype": "bfloat16", "max_model_len": 2048, "weight_transfer_config": {"backend": BACKEND}}
    seconds, engine = time_call(lambda: EngineProcesses(str(check.model), settings, options))
    check.report(start_seconds=seconds)

    def send(version: int) -> dict[str, float]:
        return engine.update_weights(_scale_weights(causal, version), version, None, 1.0)

    try:
        (through_memory, first), (_, joined), (by_nccl, last) = (
            time_call(partial(send, version)) for version in range(3)
        )
    finally:
        engine.close()
    check.report(memory_gb_per_second=gigabytes / through_memory, nccl_gb_per_second=gigabytes / by_nccl)
    check.report(proven=min(metrics[CHECKED_SHARE_METRIC] for metrics in (first, joined, last)))


def _scale_weights(model: Any, version: int) -> Iterator[tuple[str, Tensor]]:
    for name, weight in model.named_parameters():
        yield name, weight.detach() * (1 + 0.01 * version)
