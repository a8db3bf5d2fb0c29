"""How fast a run is, and how much memory it takes: figures of a step, where they are known."""

import resource
from collections.abc import Sequence
from typing import TYPE_CHECKING

import psutil

from train.config import Config

if TYPE_CHECKING:
    from train.rollouts.batch_collector import Group

# Dense products of matrices in bfloat16, operations per second, from the makers' data sheets; by a part of the name
# of the device, the more special one first.
_PEAKS = {
    "B200": 2250e12, "H200": 989e12, "H100 PCIe": 756e12, "H100": 989e12, "H800": 989e12, "H20": 148e12,
    "A100": 312e12, "A800": 312e12, "L40S": 362e12, "A10G": 70e12, "L4": 121e12, "RTX 4090": 165e12,
}  # fmt: skip
_GIB = 2**30


class Performance:
    """Figures of the steps of a run.

    n_ranks: number of processes that the learner consists of, each with a GPU of its own
    """

    def __init__(self, config: Config, *, n_ranks: int) -> None:
        import torch

        self._config = config
        self._on_gpu = torch.cuda.is_available()
        peak = _peak(torch.cuda.get_device_name()) if self._on_gpu and config.model.dtype == "bfloat16" else None
        self._peak = None if peak is None else peak * n_ranks
        self._size = None
        if peak is not None:
            from train.learning.flops import flops_per_token

            self._size = flops_per_token(config.model.path)

    def step_metrics(self, groups: "Sequence[Group]", *, train_seconds: float, step_seconds: float) -> dict[str, float]:
        """Return the figures of a step that trained on these groups."""
        lengths = [(len(group[0].prompt_ids), [len(rollout.token_ids) for rollout in group]) for group in groups]
        figures = {
            "perf/tokens_per_second": sum(n * len(answers) + sum(answers) for n, answers in lengths) / step_seconds,
            "perf/training_tokens_per_second": sum(n + sum(answers) for n, answers in lengths) / train_seconds,
            "perf/host_memory_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / _GIB,
            "perf/machine_memory_share": psutil.virtual_memory().percent / 100,
        }
        if self._on_gpu:
            import torch

            figures["perf/device_memory_gib"] = torch.cuda.max_memory_allocated() / _GIB
        if self._size is not None and self._peak is not None:
            from train.learning.flops import training_flops

            flops = training_flops(self._size, lengths, self._config)
            figures["perf/mfu"] = flops / train_seconds / self._peak
        return figures


def _peak(device: str) -> float | None:
    return next((peak for name, peak in _PEAKS.items() if name in device), None)
