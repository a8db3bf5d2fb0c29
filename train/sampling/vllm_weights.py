"""Checksums of a vLLM worker's weights, for comparison with the tensors in the model's files.

vLLM fuses tensors of the files (q_proj, k_proj and v_proj become qkv_proj), shards them over GPUs, and on CPUs packs
most of them. To locate each region, vLLM's own loading code runs on meta tensors, and a dispatch mode records its
copies. A packed weight is read through products with the identity matrix.

Quantized weights, and experts reordered by a kernel, have no checksums.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from train.weights.checksums import PartialChecksum, Region, compute_partial_checksum

TensorSpec = tuple[str, str, tuple[int, ...]]  # name, dtype and shape of a tensor in the model's files
_ROW_BATCH = 1024  # number of rows of the identity matrix in each product
_EMBEDDING, _LM_HEAD = "model.embed_tokens.weight", "lm_head.weight"


@dataclass(frozen=True, slots=True)
class LoadedRegion:
    """A region of a tensor in the model's files, and its location in a parameter of a module."""

    name: str
    source: Region
    module: nn.Module
    parameter: str
    target: Region
    shape: tuple[int, ...]  # shape of the parameter before packing


def trace_loaded_regions(model: Any, tensor_specs: Iterable[TensorSpec]) -> list[LoadedRegion]:
    """Trace which regions of tensors vLLM's loading code copies into which parameters, on meta tensors."""
    tensors = {
        name: torch.empty(tuple(shape), dtype=getattr(torch, dtype), device="meta")
        for name, dtype, shape in tensor_specs
    }
    with _empty_parameters(model) as parameters, _CopyRecorder(parameters, tensors) as copies:
        model.load_weights(append_lm_head(tensors.items()))
    return list(copies.placements)


def compute_partial_checksums(
    regions: Sequence[LoadedRegion], tensor_specs: Iterable[TensorSpec]
) -> list[PartialChecksum]:
    """Compute partial checksums of the modules' current weights. Omits parameters in unknown layouts."""
    kinds = {name: (getattr(torch, dtype), tuple(shape)) for name, dtype, shape in tensor_specs}
    by_parameter: dict[tuple[int, str], list[LoadedRegion]] = defaultdict(list)
    for region in regions:
        by_parameter[id(region.module), region.parameter].append(region)
    parts: list[PartialChecksum] = []
    for of_parameter in by_parameter.values():
        effective = _read_effective_weight(of_parameter[0])  # may be a copy, so hold only one at a time
        if effective is None:
            continue
        for region in of_parameter:
            dtype, shape = kinds[region.name]
            total = compute_partial_checksum(region.target.view(effective).to(dtype), region.source, shape)
            parts.append((region.name, region.source.sizes, region.source.strides, region.source.offset, total))
    return parts


def append_lm_head(weights: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield the tensors. If they lack `lm_head.weight`, also yield the embedding under this name.

    On a CPU, vLLM keeps a packed copy of a tied output layer, and updates it only from this tensor.
    """
    embedding, has_head = None, False
    for name, tensor in weights:
        if name == _EMBEDDING:
            embedding = tensor
        elif name == _LM_HEAD:
            has_head = True
        yield name, tensor
    if embedding is not None and not has_head:
        yield _LM_HEAD, embedding


def _read_effective_weight(region: LoadedRegion) -> Tensor | None:
    """Return a parameter's unpacked values; None if its layout is unknown."""
    if region.parameter == "weight" and len(region.shape) == 2 and hasattr(region.module, "cpu_linear"):
        return _unpack(region.module, *region.shape)
    effective = getattr(region.module, region.parameter).detach()
    return effective if effective.shape == region.shape and effective.is_contiguous() else None


def _unpack(module: Any, outputs: int, inputs: int) -> Tensor:
    """Read a packed matrix through its products with the rows of the identity matrix."""
    effective = torch.empty(outputs, inputs, dtype=module.weight.dtype)
    for first in range(0, inputs, _ROW_BATCH):
        last = min(first + _ROW_BATCH, inputs)
        rows = torch.zeros(last - first, inputs, dtype=module.weight.dtype)
        rows[:, first:last].fill_diagonal_(1)
        effective[:, first:last] = module.quant_method.apply(module, rows).t()
    return effective


@contextmanager
def _empty_parameters(model: nn.Module) -> Iterator[dict[int, tuple[nn.Module, str, Tensor]]]:
    """Replace all parameters by meta tensors, as before loading. Restore them on exit.

    Yield (module, name, parameter) by storage id.
    """
    from vllm.model_executor.model_loader.reload import layerwise
    from vllm.model_executor.model_loader.reload.meta import restore_layer_on_meta
    from vllm.model_executor.model_loader.reload.utils import get_layer_params_buffers

    changed = []
    try:
        for module in model.modules():
            info = layerwise.get_layerwise_info(module)
            info.kernel_tensors = get_layer_params_buffers(module)
            info.kernel_non_persistent_buffers = set(module._non_persistent_buffers_set)
            changed.append((module, info))
            restore_layer_on_meta(module, info)
            for tensor in module.parameters(recurse=False):
                if hasattr(tensor, "weight_loader"):  # a reload's loaders wait until a layer is complete
                    tensor.weight_loader = layerwise._get_original_loader(tensor)
        yield {
            _get_storage_id(tensor): (module, name, tensor)
            for module in model.modules()
            for name, tensor in module.named_parameters(recurse=False)
        }
    finally:
        for module, info in changed:
            layerwise._place_kernel_tensors(module, info)
            info.reset()  # type: ignore[no-untyped-call]


class _CopyRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode that records copies of tensors into parameters, and changes no tensor that holds data."""

    def __init__(self, parameters: Mapping[int, tuple[nn.Module, str, Tensor]], tensors: Mapping[str, Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._parameters = parameters
        self._names = {_get_storage_id(tensor): name for name, tensor in tensors.items()}
        self.placements: list[LoadedRegion] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.copy_.default:
            self._record(args[0], args[1])
            return args[0]
        if func._schema.is_mutable and isinstance(args[0], Tensor) and not args[0].is_meta:
            return args[0]
        return func(*args, **(kwargs or {}))

    def _record(self, target: Tensor, source: Tensor) -> None:
        name = self._names.get(_get_storage_id(source))
        if name is not None and (entry := self._parameters.get(_get_storage_id(target))) is not None:
            module, parameter, whole = entry
            found = LoadedRegion(
                name, _make_region(source), module, parameter, _make_region(target), tuple(whole.shape)
            )
            self.placements.append(found)


def _get_storage_id(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _make_region(view: Tensor) -> Region:
    return Region(tuple(view.shape), view.stride(), int(view.storage_offset()))
