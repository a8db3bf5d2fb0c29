"""The learner's planned memory compared with measurements of its code on tensors without data.

    python -m benchmarks.memory   # about four minutes; needs no GPU and no weights

All layers of the policy make a forward and a backward pass in FakeTensorMode; on several GPUs, FSDP2 shards them over a
fake process group. The peak counts weights, gradients, moments, and all live storages. The plan (train/run/memory.py)
extrapolates from two and three layers without FSDP2. CPU attention keeps as much memory as the GPU kernel.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode

from benchmarks.model_sizes import save_qwen2_5
from benchmarks.record import ROOT, save_results
from train.config import ModelConfig
from train.learning.policy import Policy, find_layers, load_hf_config
from train.learning.ranks import RankGroup, _create_mesh
from train.learning.sequences import PackedRow
from train.run.memory import GB, LiveBytes, build_model_without_data, estimate_learner_memory

_PROMPT_TOKENS = 2048
ROWS = {"16K": 16384 + _PROMPT_TOKENS, "32K": 32768 + _PROMPT_TOKENS}
# The number of GPUs that share one copy of the weights, and the hardware of published runs of this size.
CASES = {
    "1.5B": (1, "DeepCoder's 1.5B: 8 A100"),
    "7B": (4, "verl, fully asynchronous: 128 H20"),
    "14B": (6, "DeepCoder: 32 H100"),
    "32B": (16, "the preset intellect2 names 32 H100"),
}


def measure(model: ModelConfig, row_tokens: int, ranks: int) -> float:
    """Return the peak bytes on one rank. Call it once in a process, since it sets up a process group."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.set_num_threads(1)
    if ranks > 1:
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
        _create_mesh("cpu", 1, ranks)  # cached, since FakeTensorMode cannot create it
    with FakeTensorMode():
        causal = build_model_without_data(load_hf_config(model.path), model)
        policy = Policy(causal, torch.bfloat16, 1.0, autocast=ranks == 1, exact_logits=True)
        if ranks > 1:
            group = RankGroup.__new__(RankGroup)
            group.size = group._shard = ranks
            group.device = torch.device("cpu")
            group.shard(policy, find_layers(causal), torch.bfloat16)
        trained = [weight for weight in causal.parameters() if weight.requires_grad]
        for weight in trained:
            weight.grad = torch.zeros_like(weight)
        held = [to_local(tensor) for tensor in (*causal.parameters(), *(weight.grad for weight in trained))]
        index = torch.zeros(row_tokens, dtype=torch.int64)
        row = PackedRow(index, index, ((row_tokens,),), index, index, index, index)
        with LiveBytes(held) as alive, count_resized_storages(alive):
            logp_R, _ = policy(row)
            logp_R.sum().backward()
            alive.end_phase()
    moments = 2 * sum(to_local(weight).nbytes for weight in trained)
    return float(sum(tensor.nbytes for tensor in held) + moments + alive.peaks[0])


@contextmanager
def count_resized_storages(alive: LiveBytes) -> Iterator[None]:
    """Include resized storages, into which FSDP2 gathers weights, in the live bytes."""
    resize, sizes = torch.UntypedStorage.resize_, alive._sizes

    def count_and_resize(storage: torch.UntypedStorage, size: int) -> Any:
        key = storage._cdata
        if key in sizes:
            alive.add(size - sizes[key])
            sizes[key] = size
        return resize(storage, size)

    with mock.patch.object(torch.UntypedStorage, "resize_", count_and_resize):
        yield


def to_local(tensor: Any) -> torch.Tensor:
    local: torch.Tensor = getattr(tensor, "_local_tensor", tensor)
    return local


def compare(folder: Path, row_tokens: int, ranks: int, *, lora_rank: int = 0) -> dict[str, float]:
    """Return the planned and the measured GB on each GPU."""
    model = make_model_config(folder, lora_rank)
    planned = estimate_learner_memory(model, row_tokens=row_tokens, reference=False, ranks=ranks).total
    arguments = map(str, (folder, row_tokens, ranks, lora_rank))
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.memory", *arguments]
    printed = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout
    return {"planned": planned / GB, "measured": float(printed) / GB}


def make_model_config(folder: Path, lora_rank: int) -> ModelConfig:
    return ModelConfig(
        str(folder), dtype="bfloat16", head_dtype="float32", activation_checkpointing=True, lora_rank=lora_rank
    )


def main() -> None:
    if len(sys.argv) > 1:
        folder, *numbers = sys.argv[1:]
        row_tokens, ranks, lora_rank = map(int, numbers)
        print(measure(make_model_config(Path(folder), lora_rank), row_tokens, ranks))
        return
    rows = []
    for name, (gpus, published) in CASES.items():
        with TemporaryDirectory() as folder:
            save_qwen2_5(name, Path(folder), tie_word_embeddings=False)  # as in R1-Distill-Qwen-1.5B
            for row, tokens in ROWS.items():
                found = compare(Path(folder), tokens, gpus)
                rows.append({"model": name, "row": row, "gpus": gpus, **found, "published": published})
                print(rows[-1], flush=True)
    save_results("memory", {"rows": rows})


if __name__ == "__main__":
    main()
