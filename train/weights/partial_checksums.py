"""Checksums of whole tensors from the parts of them that the processes of an engine hold."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from math import prod

# A part of a tensor that a process holds: the tensor's name; sizes, strides and offset of the part in the tensor; and
# what the part adds to the tensor's checksum.
PartialChecksum = tuple[str, tuple[int, ...], tuple[int, ...], int, int]

DIFFERENT_COPIES = "copies differ"


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
            found[name] = f"{sum(min(totals) for totals in places.values()) % (1 << 64):016x}"
    return found
