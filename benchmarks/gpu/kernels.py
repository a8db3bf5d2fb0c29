"""The results of GPU kernels compared with the CPU. Errors are relative to the largest value."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest import mock

import torch
from torch import Tensor

from benchmarks.gpu.setup import SMALL, CheckEnvironment, make_model, make_small_batch, open_learner, update
from train.learning.attention import compute_packed_attention
from train.learning.logprob import compute_logprob_and_entropy

# Tokens of each prompt, followed by those of its completions.
LENGTHS = ((300, 17, 1, 250), (1, 40), (513,), (64, 128, 128))
HEADS, KEY_HEADS, WIDTH = 12, 2, 128  # attention of the 1.5B
TOKENS, HIDDEN, WORDS = 1100, 128, 1024  # shape of the logits; more tokens than a chunk


def main(check: CheckEnvironment) -> None:
    device = "cpu" if check.on_cpu else "cuda"
    for dtype, name in ((torch.bfloat16, "attention_bf16_error"), (torch.float32, "attention_fp32_error")):
        with check.catch_errors():
            check.report(**{name: max(_measure_attention_error(dtype, device, window) for window in (None, 100))})
    with check.catch_errors():
        _report_logprobs(check, device)
    with check.catch_errors():
        _report_update(check)


def _measure_attention_error(dtype: torch.dtype, device: str, window: int | None) -> float:
    torch.manual_seed(0)
    length = sum(map(sum, LENGTHS))
    tensors = [torch.randn(1, heads, length, WIDTH).bfloat16().float() for heads in (HEADS, KEY_HEADS, KEY_HEADS)]

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        identity = torch.nn.Identity()
        return compute_packed_attention(identity, query, key, value, None, lengths=LENGTHS, sliding_window=window)[0]

    exact = _compute_gradients(attend, tensors, torch.float32, "cpu")
    ours = _compute_gradients(attend, tensors, dtype, device)
    return max(map(_measure_error, ours, exact))


def _report_logprobs(check: CheckEnvironment, device: str) -> None:
    torch.manual_seed(0)
    tensors, targets_T = [torch.randn(TOKENS, HIDDEN), torch.randn(WORDS, HIDDEN) / 8], torch.randint(WORDS, (TOKENS,))

    def score(hidden_TD: Tensor, head_VD: Tensor) -> Tensor:
        return compute_logprob_and_entropy(hidden_TD, head_VD, targets_T.to(hidden_TD.device), exact=True)[0]

    exact, ours = (_compute_gradients(score, tensors, torch.bfloat16, each) for each in ("cpu", device))
    logp_error = (ours[0] - exact[0]).abs().max().item()
    check.report(exact_logprob_error=logp_error, exact_gradient_error=max(map(_measure_error, ours[1:], exact[1:])))


def _compute_gradients(
    compute: Callable[..., Tensor], tensors: Sequence[Tensor], dtype: torch.dtype, device: str
) -> list[Tensor]:
    """Return the output, and the gradients of a weighted sum of it with respect to the tensors."""
    leaves = [tensor.detach().to(device, dtype, copy=True).requires_grad_() for tensor in tensors]
    values = compute(*leaves)
    weights = torch.linspace(-1, 1, values.numel(), device=device).reshape(values.shape)
    gradients = torch.autograd.grad((values.float() * weights).sum(), leaves)
    return [tensor.detach().float().cpu() for tensor in (values, *gradients)]


def _measure_error(ours: Tensor, exact: Tensor) -> float:
    return ((ours - exact).abs().max() / exact.abs().max()).item()


def _report_update(check: CheckEnvironment) -> None:
    """Compare updates of a small model: the new weights in float32, and the gradient in half precision."""
    steps, norms, has_gpu = [], [], torch.cuda.is_available()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small"
        make_model(path, SMALL, "cpu")
        for dtype, here in (("float32", False), ("float32", has_gpu), ("bfloat16", has_gpu)):
            run = check.make_config(path, row_tokens=512, dtype=dtype)
            with mock.patch("torch.cuda.is_available", lambda here=here: here):
                learner = open_learner(run)
            norms.append(update(learner, make_small_batch())["grad_norm"])
            weights = [weight.flatten().float().cpu() for _, weight in learner.export_weights()]
            steps.append(torch.cat(weights) / run.optimizer.learning_rate)
            learner.close()
    check.report(fused_step_error=(steps[1] - steps[0]).abs().mean().item(), update_error=abs(norms[2] / norms[0] - 1))
