"""Log-probabilities of given tokens without materializing (tokens x vocabulary) logits.

Logits are computed for a chunk of tokens, reduced to three numbers per token, and discarded; backward recomputes them.
Peak memory is chunk x vocabulary instead of tokens x vocabulary, for twice the computation.
"""

from typing import Any

import torch
from torch import Tensor

CHUNK_TOKENS = 1024


def compute_logprob_and_entropy(
    hidden_TD: Tensor, head_VD: Tensor, target_T: Tensor, *, temperature: float = 1.0, entropy_gradient: bool = False,
    chunk_tokens: int = CHUNK_TOKENS, exact: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the float32 log-probabilities and entropies, both of shape (T,).

    The distribution is softmax(hidden @ head.T / temperature); entropies are in nats.

    temperature       the sampler's, because samplers report log-probabilities after temperature
    entropy_gradient  whether entropies have gradients to hidden and head, as log-probabilities have
    chunk_tokens      number of tokens whose logits are in memory together
    exact             whether products of half-precision matrices stay in float32, as in an engine with a float32 head
    """
    result: tuple[Tensor, Tensor] = _Chunked.apply(  # type: ignore[no-untyped-call]
        hidden_TD, head_VD, target_T, temperature, entropy_gradient, chunk_tokens, exact
    )
    return result


class _Chunked(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden_TD: Tensor, head_VD: Tensor, target_T: Tensor, temperature: float, entropy_gradient: bool,
        chunk_tokens: int, exact: bool,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        logp_T = hidden_TD.new_empty(len(target_T), dtype=torch.float32)
        entropy_T = torch.empty_like(logp_T)
        normalizer_T = torch.empty_like(logp_T)
        for at in range(0, len(target_T), chunk_tokens):
            part = slice(at, at + chunk_tokens)
            logits_CV = _multiply(hidden_TD[part], head_VD.T, exact) / temperature
            normalizer_T[part] = logits_CV.logsumexp(1)
            logp_T[part] = logits_CV.gather(1, target_T[part, None])[:, 0] - normalizer_T[part]
            # H = log Z - E[logit] needs one pass, and no second (chunk x vocabulary) tensor of log-probabilities.
            p_CV = (logits_CV - normalizer_T[part, None]).exp()
            entropy_T[part] = normalizer_T[part] - (p_CV * logits_CV).sum(1)
        ctx.save_for_backward(hidden_TD, head_VD, target_T, normalizer_T, entropy_T)
        ctx.temperature, ctx.entropy_gradient, ctx.chunk_tokens = temperature, entropy_gradient, chunk_tokens
        ctx.exact = exact
        if not entropy_gradient:
            ctx.mark_non_differentiable(entropy_T)
        return logp_T, entropy_T

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        hidden_TD, head_VD, target_T, normalizer_T, entropy_T = ctx.saved_tensors
        grad_T, grad_entropy_T = gradients
        needs_hidden, needs_head = ctx.needs_input_grad[:2]
        grad_hidden_TD = torch.empty_like(hidden_TD) if needs_hidden else None
        # float32, because in half precision a sum over many chunks would lose small terms
        grad_head_VD = torch.zeros_like(head_VD, dtype=torch.float32) if needs_head else None
        for at in range(0, len(target_T), ctx.chunk_tokens):
            part = slice(at, at + ctx.chunk_tokens)
            logits_CV = _multiply(hidden_TD[part], head_VD.T, ctx.exact) / ctx.temperature
            logits_CV -= normalizer_T[part, None]
            p_CV = logits_CV.exp()
            grad_CV = p_CV * -grad_T[part, None]
            rows = torch.arange(len(grad_CV), device=grad_CV.device)
            grad_CV[rows, target_T[part]] += grad_T[part]  # d logp / d logit = [target] - p
            if ctx.entropy_gradient:  # d H / d logit = -p (log p + H)
                grad_CV -= p_CV.mul_(logits_CV.add_(entropy_T[part, None])).mul_(grad_entropy_T[part, None])
            grad_CV /= ctx.temperature
            if grad_hidden_TD is not None:
                grad_hidden_TD[part] = grad_CV.to(head_VD.dtype) @ head_VD
            if grad_head_VD is not None:
                grad_head_VD += _multiply(grad_CV.to(hidden_TD.dtype).T, hidden_TD[part], ctx.exact)
        head_gradient = None if grad_head_VD is None else grad_head_VD.to(head_VD.dtype)
        return grad_hidden_TD, head_gradient, None, None, None, None, None


def _multiply(left: Tensor, right: Tensor, exact: bool) -> Tensor:
    """Return the matrix product in float32. Unless `exact`, round it first to the precision of its factors."""
    if not exact:
        return (left @ right).float()
    if left.device.type == "cuda" and left.dtype != torch.float32:
        return torch.mm(left, right, out_dtype=torch.float32)  # no float32 copies of the factors
    return left.float() @ right.float()
