"""The measured figures of each check, with their thresholds on one H100, and the reasons."""

import re
from math import inf
from typing import NamedTuple

from benchmarks.record import ROOT

_PINNED = dict(re.findall(r'"(torch|vllm)==([^"]+)"', (ROOT / "pyproject.toml").read_text()))

MARK = "figure: "  # prefix of a line of output that holds the name and value of a figure
Value = float | str | None  # None: not measurable on this machine
PASS, SLOW, FAIL, SKIP = "pass", "slow", "fail", "skip"


class Threshold(NamedTuple):
    """The bounds of a figure.

    text      required prefix of a textual figure
    is_speed  a figure outside the bounds is SLOW, not FAIL; on CPUs it passes
    """

    unit: str = ""
    low: float = -inf
    high: float = inf
    reason: str = ""
    is_speed: bool = False
    text: str = ""

    def judge(self, value: Value, *, on_cpu: bool) -> str:
        """Return PASS, SLOW, FAIL or SKIP."""
        if value is None:
            return SKIP
        if value.startswith(self.text) if isinstance(value, str) else self.low <= value <= self.high:
            return PASS
        return FAIL if not self.is_speed else PASS if on_cpu else SLOW

    def __str__(self) -> str:
        bounds = [f">= {self.low:g}"] * (self.low > -inf) + [f"<= {self.high:g}"] * (self.high < inf)
        return self.text or ", ".join(bounds) or "-"


def _require_rate(unit: str, low: float, reason: str) -> Threshold:
    return Threshold(unit, low=low, reason=reason, is_speed=True)


def _limit_seconds(high: float, reason: str) -> Threshold:
    return Threshold("s", high=high, reason=reason, is_speed=True)


_PARITY = Threshold("", 1, 1.05, "mean exp |difference of log-probabilities|; NeMo-RL allows 1.05 in half precision")
_KL = Threshold("nats", high=0.01, reason="engine.mismatch_alarm; PRIME-RL merges no model above 0.015")
_NORM = Threshold("", low=1e-9, reason="a zero gradient trains nothing")
_SKIPPED = Threshold("updates", high=0, reason="an update is skipped if its loss mask is zero")
_OF_PLAN = Threshold("of plan", 0.9, 1.1, "--dry-run promises the memory within a tenth")
_WITHIN_PLAN = Threshold("of plan", high=1, reason="a run above its plan may run out of memory")

THRESHOLDS: dict[str, dict[str, Threshold]] = {
    "machine": {
        "gpu": Threshold(),
        "driver": Threshold(),
        "torch": Threshold(text=_PINNED["torch"], reason="pyproject.toml pins it"),
        "vllm": Threshold(text=_PINNED["vllm"], reason="pyproject.toml pins it: its Python API changes each month"),
        "runner": Threshold(),  # vLLM's model runner: V1 or V2
        "free_share": Threshold("of GPU", 0.97, reason="another process uses this GPU; type nvidia-smi to find it"),
        "host_free_gib": Threshold("GiB", 56, reason="the processes, and two copies of weights and moments of 20 GiB"),
        "disk_free_gib": Threshold("GiB", 50, reason="two checkpoints of 20 GiB each, and the model twice"),
        "model_seconds": Threshold("s"),
    },
    "kernels": {
        "attention_bf16_error": Threshold("", high=0.03, reason="bf16 has 8 bits, and values are sums over keys"),
        "attention_fp32_error": Threshold("", high=1e-3, reason="a kernel may compute one product as three in TF32"),
        "exact_logprob_error": Threshold("nats", high=1e-4, reason="products of bf16 are exact in float32"),
        "exact_gradient_error": Threshold("", high=0.02, reason="gradients of logits are rounded to bf16"),
        "fused_step_error": Threshold("of step", high=0.02, reason="mean; signs of gradients near 0 may differ"),
        "update_error": Threshold("", high=0.05, reason="gradient norms in bf16 and float32 differ by rounding"),
    },
    "learner": {
        "load_seconds": _limit_seconds(40, "7 GB in float32, from the page cache"),
        "forward_tokens_per_second": _require_rate("tokens/s", 35_700, "three times an update's: a third of its FLOPs"),
        "update_tokens_per_second": _require_rate("tokens/s", 11_900, "PRIME-RL with 0.6B at 16K on one H100"),
        "update_mfu": _require_rate("of peak", 0.25, "PRIME-RL: 0.24 at 16K in SFT, 0.27 at 64K in RL"),
        "peak_gib": Threshold("GiB"),
        "peak_of_plan": _OF_PLAN,
        "device_of_plan": _WITHIN_PLAN,  # includes the overhead of CUDA and the allocator
        "grad_norm": _NORM,
        "skipped": _SKIPPED,
        "repeated_kl": Threshold("nats", high=1e-3, reason="both passes compute the same log-probabilities"),
        "first_hold_seconds": _limit_seconds(20, "20 GiB of memory are pinned, once"),
        "held_of_plan": Threshold("of plan", 0.8, 1.1, "host memory: one of the two copies in the plan"),
        "hold_seconds": _limit_seconds(2.2, "20 GiB at 10 GB/s, half of the rate of PCIe 4"),
    },
    "lora": {
        "update_seconds": _limit_seconds(3.5, "two rows at 11,900 tokens/s"),
        "peak_gib": Threshold("GiB"),
        "peak_of_plan": _OF_PLAN,
        "grad_norm": _NORM,
        "skipped": _SKIPPED,
        "changed_weights": Threshold("of a layer", 7, reason="engines get all seven matrices with LoRA merged in"),
    },
    "engine": {
        "start_seconds": _limit_seconds(90, "a cold start with compilation and CUDA graphs"),
        "cache_tokens": Threshold("tokens"),
        "overhead_of_plan": _WITHIN_PLAN,  # the engine's memory besides weights and cache
        "load_seconds": _limit_seconds(10, "3.6 GB from GPU to GPU, and their checksums"),
        "prompt_parity": _PARITY,
        "sampled_parity": _PARITY,
        "tokens_per_second": _require_rate("tokens/s", 10_000, "256 concurrent completions, 25 ms a step"),
        "mismatch_kl": _KL,
        "grad_norm": _NORM,
        "skipped": _SKIPPED,
        "lent_gib": Threshold("GiB"),
        "sleeping_of_plan": _WITHIN_PLAN,  # the memory of a sleeping engine
        "wake_seconds": _limit_seconds(12, "load_seconds, and 28 GB are mapped"),
        "woken_parity": _PARITY,
        "not_regained_gib": Threshold("GiB", high=1, reason="losses of every sleep and wake add up"),
        "sampling_kept": Threshold("of speed"),  # while the learner trains
        "training_kept": Threshold("of speed"),  # while the engine samples
        "overlap_gain": _require_rate("", 1, "the sum of both: below 1, sync is faster than one-off on this GPU"),
        "flight_load_seconds": _limit_seconds(12, "load_seconds, and the caches of 32 completions"),
        "flight_parity": _PARITY,  # of tokens sampled after a load in the middle of their completions
        "flight_first_parity": _PARITY,  # of the first such token of each completion
        "flight_contrast": Threshold("", 1.2, reason="other weights sampled the tokens before"),
    },
    "run": {
        "start_seconds": _limit_seconds(90, "until the first step ends, with a warm start of vLLM"),
        "step_seconds": _limit_seconds(15, "sampling, two updates, sleep and wake, of 3 s each"),
        "grad_norm": _NORM,
        "skipped": _SKIPPED,
        "mismatch_kl": _KL,
        "parity": _PARITY,
        "checkpoint_seconds": _limit_seconds(45, "20 GiB at 500 MB/s"),
        "killed_after_step": Threshold("", 2, reason="the first checkpoint follows step 2"),
        "resumed_after_step": Threshold("", 2, reason="--resume continues from the newest checkpoint"),
        "resume_seconds": _limit_seconds(150, "a start, a checkpoint read, a step, a checkpoint and a model written"),
        "model_files": Threshold("", 1, reason="the trained model is in RUN/model"),
    },
    "ranks": {
        "grad_norm_error": Threshold("", high=0.02, reason="two ranks sum the same gradients in another order"),
        "weights_error": Threshold("", high=0.02, reason="their weights differ only by the order of sums"),
        "held_share": Threshold("", high=0.6, reason="each rank holds half of the state and the unsharded tensors"),
    },
    "transfer": {
        "start_seconds": _limit_seconds(90, "a cold start of an engine in its own process"),
        "memory_gb_per_second": _require_rate("GB/s", 0.5, "through host memory, with verification"),
        "nccl_gb_per_second": _require_rate("GB/s", 1, "from GPU to GPU, with verification"),
        "proven": Threshold("of weights", 1, reason="each tensor in the engine has the learner's checksum"),
    },
}
