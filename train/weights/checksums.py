"""Checksums of tensors, from the whole tensor or from the parts of it that the processes of an engine hold.

A checksum is a sum over the elements, modulo 2^64: the bits of the element times an odd number that depends on its
row and column in the whole tensor. A single element that differs always changes it; other differences, such as rows in
another order, go unnoticed with a chance of less than one in a billion. Since it is a sum, those of the parts add up
to that of the whole: engines that split a tensor among GPUs are checked without gathering it. Zeros of either sign and
subnormal numbers count as zero, because the matrix products of some CPUs do not tell them apart.

This guards against mistakes. Against forgery there are the digests of the files.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import torch
from torch import Tensor

# Elements of one pass, which are integers of 8 bytes for a moment: what a CPU's cache holds, or a GPU keeps busy.
_CHUNK_ELEMENTS = {"cpu": 1 << 16, "cuda": 1 << 24}
_ROWS, _COLUMNS = 0x5851F42D4C957F2D, 0x14057B7EF767814F  # so that a row and a column of one number differ
_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

# A part of a tensor that a process holds: the tensor's name; sizes, strides and offset of the part in the tensor; and
# what the part adds to the tensor's checksum.
PartialChecksum = tuple[str, tuple[int, ...], tuple[int, ...], int, int]

DIFFERENT_COPIES = "copies differ"


@dataclass(frozen=True, slots=True)
class Region:
    """Some elements of a contiguous tensor, as torch's `as_strided` names them."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    def view(self, tensor: Tensor) -> Tensor:
        """Return these elements of a tensor, without a copy."""
        return tensor.as_strided(self.sizes, self.strides, tensor.storage_offset() + self.offset)


def checksum(tensor: Tensor) -> str:
    """Return the checksum of a whole tensor, 16 hexadecimal digits."""
    tensor = tensor.detach().contiguous()
    return to_hex(partial_checksum(tensor, Region(tuple(tensor.shape), tensor.stride(), 0), tensor.shape))


def to_hex(total: int) -> str:
    """Return the checksum to which partial sums add up."""
    return f"{total % (1 << 64):016x}"


@torch.no_grad()
def partial_checksum(values: Tensor, place: Region, shape: Sequence[int]) -> int:
    """Return what the elements at a place of a contiguous tensor of this shape add to the checksum of the tensor.

    Raises ValueError if the elements are not a block of rows and columns.
    """
    factor_I, factor_J, order = _factors(place, max(1, prod(shape[1:])), values.device)
    values_IJ = values.detach().permute(order).reshape(len(factor_I), len(factor_J))
    step = max(1, _CHUNK_ELEMENTS.get(values.device.type, 1 << 16) // max(1, len(factor_J)))
    total = torch.zeros((), dtype=torch.int64, device=values.device)
    for first in range(0, len(factor_I), step):
        part = slice(first, first + step)
        total += ((_bits(values_IJ[part]) * factor_J).sum(1) * factor_I[part]).sum()
    return int(total)


def combine_checksums(parts: Iterable[PartialChecksum], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Return the checksum of every tensor whose elements are all held, by its name.

    If a part is held several times, as GPUs do with small tensors, and the copies are not the same, then
    DIFFERENT_COPIES stands for the checksum.
    """
    by_tensor: dict[str, dict[tuple[tuple[int, ...], int], set[int]]] = defaultdict(lambda: defaultdict(set))
    for name, sizes, _, offset, total in parts:
        by_tensor[name][tuple(sizes), offset].add(total)
    found = {}
    for name, places in by_tensor.items():
        if any(len(totals) > 1 for totals in places.values()):
            found[name] = DIFFERENT_COPIES
        elif sum(prod(sizes) for sizes, _ in places) == prod(shapes[name]):
            found[name] = to_hex(sum(min(totals) for totals in places.values()))
    return found


@lru_cache(maxsize=64)  # many tensors of a model have the same shape
def _factors(place: Region, columns: int, device: torch.device) -> tuple[Tensor, Tensor, list[int]]:
    """Return the odd numbers of a block's rows and columns, and the order of its dimensions that puts rows first."""
    of_rows = [dim for dim, stride in enumerate(place.strides) if stride % columns == 0 and stride > 0]
    of_columns = [dim for dim in range(len(place.sizes)) if dim not in of_rows]
    first_row, first_column = divmod(place.offset, columns)
    row_I = _steps(first_row, [(place.sizes[dim], place.strides[dim] // columns) for dim in of_rows])
    column_J = _steps(first_column, [(place.sizes[dim], place.strides[dim]) for dim in of_columns])
    if len(column_J) and int(column_J.max()) >= columns:
        raise ValueError(f"{place} is not a block of rows and columns")
    return _odd_number(row_I, _ROWS).to(device), _odd_number(column_J, _COLUMNS).to(device), of_rows + of_columns


def _steps(start: int, dimensions: Sequence[tuple[int, int]]) -> Tensor:
    places = torch.tensor([start])
    for size, stride in dimensions:
        places = (places[:, None] + torch.arange(size) * stride).flatten()
    return places


def _odd_number(number_N: Tensor, salt: int) -> Tensor:
    """Return a fixed odd number of 64 bits for each number: the finaliser of SplitMix64, which mixes all bits."""
    mixed = number_N * _signed(0x9E3779B97F4A7C15) + salt
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> shift & (1 << 64 - shift) - 1)) * _signed(factor)
    return (mixed ^ (mixed >> 31 & (1 << 33) - 1)) | 1


def _signed(word: int) -> int:
    return word - (1 << 64) if word >= 1 << 63 else word


def _bits(values: Tensor) -> Tensor:
    if values.is_floating_point():
        tiny = torch.finfo(values.dtype).tiny
        values = torch.where(values.abs() < tiny, torch.zeros((), dtype=values.dtype, device=values.device), values)
    return values.view(_INTEGERS[values.element_size()])
