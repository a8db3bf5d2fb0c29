"""Packed attention in one kernel in bfloat16 agrees with float32 attention, one sequence after another: values and
gradients, with shared prompts, grouped heads and sliding windows."""

import torch

from benchmarks.gpu.outcome import print_figures
from train.learning.attention import packed_attention

LENGTHS = ((300, 17, 1, 250), (1, 40), (513,), (64, 128, 128))
MOST = 0.03  # of values of the order of 1, in half precision


def attended(tensors: list[torch.Tensor], dtype: torch.dtype, device: str, window: int | None) -> list[torch.Tensor]:
    leaves = [tensor.detach().clone().to(device, dtype).requires_grad_() for tensor in tensors]
    values, _ = packed_attention(torch.nn.Identity(), *leaves, None, lengths=LENGTHS, sliding_window=window)
    weights = torch.linspace(-1, 1, values.numel(), device=device).reshape(values.shape)
    (values.float() * weights).sum().backward()  # type: ignore[no-untyped-call]
    gradients = [leaf.grad for leaf in leaves if leaf.grad is not None]
    return [tensor.detach().float().cpu() for tensor in (values, *gradients)]


def main() -> None:
    length, worst = sum(map(sum, LENGTHS)), 0.0
    for heads, key_heads in ((8, 8), (8, 2)):
        for window in (None, 100):
            torch.manual_seed(heads + key_heads)
            tensors = [torch.randn(1, each, length, 64).bfloat16().float() for each in (heads, key_heads, key_heads)]
            exact = attended(tensors, torch.float32, "cpu", window)
            half = attended(tensors, torch.bfloat16, "cuda", window)
            for one, other in zip(exact, half, strict=True):
                error = ((one - other).abs().max() / one.abs().max()).item()
                assert error < MOST, (heads, key_heads, window, error)
                worst = max(worst, error)
    print_figures(worst_relative_error=round(worst, 5))


if __name__ == "__main__":
    main()
