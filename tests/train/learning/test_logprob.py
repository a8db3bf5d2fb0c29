"""Log-probabilities that are computed in chunks equal those of the full logits, and so do their gradients."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from train.learning.logprob import compute_logprob_and_entropy  # noqa: E402

TOKENS, WIDTH, WORDS = 13, 3, 31


def inputs(dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(TOKENS, WIDTH, generator=generator, dtype=dtype)
    head = torch.randn(WORDS, WIDTH, generator=generator, dtype=dtype)
    return hidden, head, torch.randint(WORDS, (TOKENS,), generator=generator)


def whole(hidden, head, target, temperature):
    logp_TV = torch.log_softmax((hidden @ head.T).float() / temperature, dim=1)
    return logp_TV.gather(1, target[:, None])[:, 0], -(logp_TV.exp() * logp_TV).sum(1)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("chunk_tokens", [1, 4, 13, 100])
def test_values_and_gradients_are_those_of_full_logits(temperature, chunk_tokens):
    found, expected = [], []
    for results, make in ((found, compute_logprob_and_entropy), (expected, whole)):
        hidden, head, target = inputs()
        hidden.requires_grad_()
        head.requires_grad_()
        options = {"chunk_tokens": chunk_tokens} if make is compute_logprob_and_entropy else {}
        logp, entropy = make(hidden, head, target, temperature=temperature, **options)
        (logp * torch.linspace(-1, 2, TOKENS)).sum().backward()
        results += [logp, entropy, hidden.grad, head.grad]
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("chunk_tokens", [1, 4, 100])
def test_entropy_has_the_gradient_of_full_logits_where_it_is_wanted(temperature, chunk_tokens):
    found, expected = [], []
    for results, make in ((found, compute_logprob_and_entropy), (expected, whole)):
        hidden, head, target = inputs()
        hidden.requires_grad_()
        head.requires_grad_()
        options = (
            {"chunk_tokens": chunk_tokens, "entropy_gradient": True} if make is compute_logprob_and_entropy else {}
        )
        logp, entropy = make(hidden, head, target, temperature=temperature, **options)
        (logp * torch.linspace(-1, 2, TOKENS) + entropy * torch.linspace(3, -2, TOKENS)).sum().backward()
        results += [hidden.grad, head.grad]
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_exact_logits_of_half_precision_factors_are_those_in_double_precision():
    hidden, head, target = inputs(torch.bfloat16)
    hidden, head = hidden * 8, head * 8  # logits of the size that language models have
    expected, _ = whole(hidden.double(), head.double(), target, 1.0)
    rounded, exact = (
        compute_logprob_and_entropy(hidden, head, target, chunk_tokens=4, exact=way)[0] for way in (False, True)
    )
    assert (exact - expected).abs().max() < 1e-3 < (rounded - expected).abs().max()


def test_a_frozen_head_gets_no_gradient():
    hidden, head, target = inputs()
    hidden.requires_grad_()
    compute_logprob_and_entropy(hidden, head, target, chunk_tokens=4)[0].sum().backward()
    assert hidden.grad is not None
    assert head.grad is None


def test_entropy_carries_no_gradient():
    hidden, head, target = inputs()
    assert not compute_logprob_and_entropy(hidden.requires_grad_(), head, target)[1].requires_grad


def test_the_logits_of_all_tokens_are_never_held():
    hidden, head, target = inputs()
    sizes = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), options=None):
            made = function(*arguments, **(options or {}))
            sizes.extend(made.numel() for made in [made] if isinstance(made, torch.Tensor))
            return made

    hidden.requires_grad_()
    with Watch():
        sum(compute_logprob_and_entropy(hidden, head, target, entropy_gradient=True, chunk_tokens=4)).sum().backward()
    assert max(sizes) <= 4 * WORDS


def test_half_precision_inputs_give_float32_results():
    hidden, head, target = inputs(torch.bfloat16)
    logp, entropy = compute_logprob_and_entropy(hidden, head, target, chunk_tokens=4)
    assert logp.dtype == entropy.dtype == torch.float32
    torch.testing.assert_close(logp, whole(hidden.float(), head.float(), target, 1.0)[0], rtol=0.02, atol=0.05)
