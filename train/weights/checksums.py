"""Checksums of tensors, computed from a whole tensor or from an engine's shards of it.

A checksum is a sum over the elements, modulo 2^64. It multiplies the bits of each element by an odd factor, hashed from
row and column in the whole tensor. A change of a single element always changes the checksum; other changes, such as
reordered rows, collide with a probability below 1e-9. The checksums of shards add up to the checksum of the whole
tensor, so sharded tensors are checked without a gather. Signed zeros and subnormal numbers count as zero, because
matrix products on some CPUs flush them.

Checksums detect mistakes; the files' BLAKE3 digests detect forgery.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import torch
from torch import Tensor

# Elements per pass, by device: their 8-byte products fit into a CPU's cache, or saturate a GPU.
_CHUNK_ELEMENTS = {"cpu": 1 << 16, "cuda": 1 << 24}
_ROW_SALT, _COLUMN_SALT = 0x5851F42D4C957F2D, 0x14057B7EF767814F  # so row i and column i get different factors
_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

# A shard of a tensor: the tensor's name; sizes, strides and offset of the shard; its summand of the checksum.
PartialChecksum = tuple[str, tuple[int, ...], tuple[int, ...], int, int]

DIFFERENT_COPIES = "copies differ"


@dataclass(frozen=True, slots=True)
class Region:
    """A view of a contiguous tensor, by the arguments of torch's `as_strided`."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    def view(self, tensor: Tensor) -> Tensor:
        """Return this view of a tensor, without a copy."""
        return tensor.as_strided(self.sizes, self.strides, tensor.storage_offset() + self.offset)


def compute_checksum(tensor: Tensor) -> str:
    """Return the checksum of a whole tensor, 16 hexadecimal digits."""
    tensor = tensor.detach().contiguous()
    return to_hex(compute_partial_checksum(tensor, Region(tuple(tensor.shape), tensor.stride(), 0), tensor.shape))


def to_hex(total: int) -> str:
    """Format a sum of partial checksums as a checksum."""
    return f"{total % (1 << 64):016x}"


@torch.no_grad()
def compute_partial_checksum(values: Tensor, region: Region, shape: Sequence[int]) -> int:
    """Return the summand of these elements in the checksum of a contiguous tensor with this shape.

    region: position of the elements in the tensor

    Raises ValueError if the elements are not a block of rows and columns.
    """
    factor_I, factor_J, order = _compute_factors(region, max(1, prod(shape[1:])), values.device)
    values_IJ = values.detach().permute(order).reshape(len(factor_I), len(factor_J))
    step = max(1, _CHUNK_ELEMENTS.get(values.device.type, 1 << 16) // max(1, len(factor_J)))
    total = torch.zeros((), dtype=torch.int64, device=values.device)
    for first in range(0, len(factor_I), step):
        part = slice(first, first + step)
        total += ((_to_integers(values_IJ[part]) * factor_J).sum(1) * factor_I[part]).sum()
    return int(total)


def combine_checksums(parts: Iterable[PartialChecksum], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Return the checksum of each tensor whose shards are complete, by name; DIFFERENT_COPIES if replicas differ."""
    by_tensor: dict[str, dict[tuple[tuple[int, ...], int], set[int]]] = defaultdict(lambda: defaultdict(set))
    for name, sizes, _, offset, total in parts:
        by_tensor[name][tuple(sizes), offset].add(total)
    checksums = {}
    for name, regions in by_tensor.items():
        if any(len(totals) > 1 for totals in regions.values()):
            checksums[name] = DIFFERENT_COPIES
        elif sum(prod(sizes) for sizes, _ in regions) == prod(shapes[name]):
            checksums[name] = to_hex(sum(min(totals) for totals in regions.values()))
    return checksums


@lru_cache(maxsize=64)  # many tensors of a model have the same shape
def _compute_factors(region: Region, columns: int, device: torch.device) -> tuple[Tensor, Tensor, list[int]]:
    """Return the odd factors of a block's rows and columns, and the permutation that puts row dimensions first."""
    row_dims = [dim for dim, stride in enumerate(region.strides) if stride % columns == 0 and stride > 0]
    column_dims = [dim for dim in range(len(region.sizes)) if dim not in row_dims]
    first_row, first_column = divmod(region.offset, columns)
    row_I = _list_offsets(first_row, [(region.sizes[dim], region.strides[dim] // columns) for dim in row_dims])
    column_J = _list_offsets(first_column, [(region.sizes[dim], region.strides[dim]) for dim in column_dims])
    if len(column_J) and int(column_J.max()) >= columns:
        raise ValueError(f"{region} is not a block of rows and columns")
    return (
        _hash_to_odd(row_I, _ROW_SALT).to(device),
        _hash_to_odd(column_J, _COLUMN_SALT).to(device),
        row_dims + column_dims,
    )


def _list_offsets(start: int, dimensions: Sequence[tuple[int, int]]) -> Tensor:
    offsets = torch.tensor([start])
    for size, stride in dimensions:
        offsets = (offsets[:, None] + torch.arange(size) * stride).flatten()
    return offsets


def _hash_to_odd(number_N: Tensor, salt: int) -> Tensor:
    """Hash each number to an odd 64-bit number, by the finalizer of SplitMix64."""
    mixed = number_N * _to_int64(0x9E3779B97F4A7C15) + salt
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> shift & (1 << 64 - shift) - 1)) * _to_int64(factor)
    return (mixed ^ (mixed >> 31 & (1 << 33) - 1)) | 1


def _to_int64(bits: int) -> int:
    return bits - (1 << 64) if bits >= 1 << 63 else bits


def _to_integers(values: Tensor) -> Tensor:
    if values.is_floating_point():
        tiny = torch.finfo(values.dtype).tiny
        values = torch.where(values.abs() < tiny, torch.zeros((), dtype=values.dtype, device=values.device), values)
    return values.view(_INTEGERS[values.element_size()])
