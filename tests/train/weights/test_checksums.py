"""A checksum notices what can go wrong with a tensor, and adds up over its parts."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from train.weights.checksums import Region, compute_checksum, compute_partial_checksum, to_hex  # noqa: E402


@pytest.fixture
def matrix():
    return torch.randn(40, 24, generator=torch.Generator().manual_seed(0))


def swapped(tensor, dim):
    order = torch.arange(tensor.shape[dim])
    order[[3, 7]] = order[[7, 3]]
    return tensor.index_select(dim, order)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_any_single_element_counts(matrix, dtype):
    matrix = (matrix * 100).to(dtype)
    found = {compute_checksum(matrix)}
    for place in range(0, matrix.numel(), 7):
        other = matrix.clone()
        other.view(-1)[place] += 1
        found.add(compute_checksum(other))
    assert len(found) == 1 + len(range(0, matrix.numel(), 7))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda m: swapped(m, 0), id="rows swapped"),
        pytest.param(lambda m: swapped(m, 1), id="columns swapped"),
        pytest.param(lambda m: m.view(24, 40), id="another shape"),
        pytest.param(lambda m: torch.cat([m[:20], torch.zeros(20, 24)]), id="half of it missing"),
        pytest.param(lambda m: m * torch.where(torch.arange(40) < 2, -1.0, 1.0)[:, None], id="signs of two rows"),
        pytest.param(lambda m: m + 1e-2, id="off by a hundredth"),
        pytest.param(lambda m: torch.zeros_like(m), id="nothing"),
        pytest.param(lambda m: m.index_put((torch.tensor(0), torch.tensor(0)), torch.tensor(float("nan"))), id="nan"),
    ],
)
def test_a_changed_tensor_has_another_checksum(matrix, change):
    assert compute_checksum(change(matrix)) != compute_checksum(matrix)


def test_the_sums_of_parts_are_those_of_the_whole(matrix):
    parts = [
        (matrix[:10], Region((10, 24), (24, 1), 0)),
        (matrix[10:, 8:], Region((30, 16), (24, 1), 10 * 24 + 8)),
        (matrix[10:, :8].t(), Region((8, 30), (1, 24), 10 * 24)),
    ]
    total = sum(compute_partial_checksum(values, place, matrix.shape) for values, place in parts)
    assert to_hex(total) == compute_checksum(matrix)
    of_three_dimensions = matrix.view(5, 8, 24)
    parts = [
        (of_three_dimensions[:, :3], Region((5, 3, 24), (192, 24, 1), 0)),
        (of_three_dimensions[:, 3:], Region((5, 5, 24), (192, 24, 1), 72)),
    ]
    total = sum(compute_partial_checksum(values, place, (5, 8, 24)) for values, place in parts)
    assert to_hex(total) == compute_checksum(of_three_dimensions)


def test_elements_that_are_no_block_are_refused(matrix):
    with pytest.raises(ValueError, match="not a block"):
        compute_partial_checksum(matrix.view(-1)[20:30], Region((10,), (1,), 20), matrix.shape)


def test_signs_of_zeros_do_not_count():
    assert compute_checksum(torch.tensor([0.0, -0.0, 1e-42])) == compute_checksum(torch.tensor([-0.0, 0.0, -1e-43]))


def test_memory_layout_does_not_count(matrix):
    assert compute_checksum(matrix.t().contiguous().t()) == compute_checksum(matrix)
    assert compute_checksum(torch.zeros(0, 3)) == "0" * 16
