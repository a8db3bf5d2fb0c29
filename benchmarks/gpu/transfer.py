"""New weights for an engine on another GPU, through memory and over NCCL, each proven: seconds and bytes per second."""

import time
from collections.abc import Iterator
from typing import Any

import torch

from benchmarks.gpu import models
from benchmarks.gpu.outcome import need_gpus, need_vllm, print_figures
from train.config import EngineConfig
from train.sampling.engine_processes import EngineProcesses
from train.weights.nccl import BACKEND


def _weights(causal: Any, version: int) -> Iterator[tuple[str, torch.Tensor]]:
    for name, weight in causal.named_parameters():
        yield name, weight.detach() * (1 + 0.001 * version)


def main() -> None:
    need_vllm()
    need_gpus(2)
    from transformers import AutoModelForCausalLM

    path = models.folder(models.SIX_HUNDRED_MILLION)
    causal: Any = AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16).to("cuda:0")
    n_bytes = sum(weight.nbytes for weight in causal.parameters())
    settings = EngineConfig(gpus=(1,), transfer="nccl", load_seconds=120, sync_seconds=60)
    options = {"dtype": "bfloat16", "max_model_len": 2048, "weight_transfer_config": {"backend": BACKEND}}
    engine = EngineProcesses(path, settings, options)
    figures: dict[str, float] = {"bytes": n_bytes}
    try:
        for version, name in enumerate(("memory", "nccl_first", "nccl")):
            began = time.monotonic()
            proof = engine.update_weights(_weights(causal, version), version, None, 1.05)
            seconds = time.monotonic() - began
            assert proof["parity/checked"] == 1, proof
            figures[f"{name}_seconds"] = round(seconds, 2)
            figures[f"{name}_proof_seconds"] = round(proof["parity/proof_s"], 3)
            figures[f"{name}_gb_per_second"] = round(n_bytes / 1e9 / seconds, 2)
    finally:
        engine.close()
    print_figures(**figures)


if __name__ == "__main__":
    main()
