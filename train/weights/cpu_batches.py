"""Copies of tensors for safetensors files of bounded size."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def copy_to_cpu(weights: Iterable[tuple[str, "Tensor"]], max_bytes: int) -> "Iterator[dict[str, Tensor]]":
    """Yield copies of the tensors on the CPU, as many at once as fit into a file. A single one may be larger."""
    group: dict[str, Tensor] = {}
    size = 0
    for name, tensor in weights:
        if group and size + tensor.nbytes > max_bytes:
            yield group
            group, size = {}, 0
        # Tensors of a model may share their memory, which the format does not allow.
        group[name] = tensor.detach().to("cpu", copy=True).contiguous()
        size += tensor.nbytes
    if group:
        yield group
