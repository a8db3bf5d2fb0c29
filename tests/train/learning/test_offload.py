"""Moments that stay on the CPU change no number."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from train.learning.sharded_state import step_in_shards  # noqa: E402


@pytest.mark.parametrize("part_bytes", [1, 1000, 10**9])
def test_a_step_in_parts_is_the_step_of_the_whole(part_bytes):
    torch.manual_seed(0)
    ours = [torch.nn.Parameter(torch.randn(n, 7)) for n in (3, 20, 1, 9)]
    theirs = [torch.nn.Parameter(weight.detach().clone()) for weight in ours]
    in_parts, whole = (torch.optim.AdamW(weights, lr=0.1, weight_decay=0.1) for weights in (ours, theirs))
    for step in range(4):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            if number != step:  # one of them has no gradient
                one.grad = torch.randn_like(one)
                other.grad = one.grad.clone()
        step_in_shards(in_parts, ours, part_bytes)
        whole.step()
        whole.zero_grad()
        assert all(weight.grad is None for weight in ours)
        for one, other in zip(ours, theirs, strict=True):
            assert torch.equal(one, other)
            for key in whole.state[other]:
                assert torch.equal(in_parts.state[one][key], whole.state[other][key])
