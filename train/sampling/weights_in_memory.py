"""Weights in memory that other processes of this machine can read by a path, although no folder lists it.

They are a safetensors file that exists as long as a process has it open: nothing is left of it, however the processes
end, and a small /dev/shm is no limit. The library's own `save_file` needs a folder and all tensors at once.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from train.errors import SamplerError

_HEADER_BYTES = 16 * 2**20  # comes first, although it is only known last; blanks fill it up
_TYPES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}


class WeightsInMemory:
    """Whole tensors under their names. `path` can be read until `close`. Raises SamplerError if memory is full."""

    def __init__(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        self._descriptor = os.memfd_create("curate-weights")
        self.path = Path(f"/proc/{os.getpid()}/fd/{self._descriptor}")
        try:
            with open(self._descriptor, "wb", closefd=False) as file:
                _write(file, weights)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise SamplerError(f"cannot write new weights to memory: {error}. Free some memory.") from error
            raise

    def close(self) -> None:
        """Give the memory back once no engine reads it any more."""
        os.close(self._descriptor)


def _write(file: Any, weights: Iterable[tuple[str, Tensor]]) -> None:
    """Write the tensors one after another, so that only one is in memory besides."""
    header, end = {}, 0
    file.seek(8 + _HEADER_BYTES)
    for name, weight in weights:
        on_cpu = weight.detach().cpu().contiguous()
        file.write(on_cpu.view(-1).view(torch.uint8).numpy().data)
        first, end = end, end + on_cpu.nbytes
        header[name] = {"dtype": _TYPES[on_cpu.dtype], "shape": list(on_cpu.shape), "data_offsets": [first, end]}
    file.seek(0)
    file.write(_HEADER_BYTES.to_bytes(8, "little") + json.dumps(header).encode().ljust(_HEADER_BYTES))
