"""Write a model's weights as safetensors files of bounded size, which transformers and vLLM read."""

import json
from collections.abc import Iterable
from pathlib import Path

from torch import Tensor

from train.weights.cpu_batches import copy_to_cpu

FILE_BYTES = 2 * 2**30  # bytes of a file, unless a single tensor has more; as many are in memory while it is written


def write_weights(weights: Iterable[tuple[str, Tensor]], folder: Path, file_bytes: int = FILE_BYTES) -> None:
    """Write the tensors as they come: one file, or several with an index, under the names that transformers expects.

    Raises OSError or SafetensorError if they cannot be written.
    """
    from safetensors.torch import save_file

    files: list[list[str]] = []
    total_bytes = 0
    for tensors in copy_to_cpu(weights, file_bytes):
        save_file(tensors, folder / _unfinished(len(files)), {"format": "pt"})
        files.append(list(tensors))
        total_bytes += sum(tensor.nbytes for tensor in tensors.values())
    names = [f"model-{number + 1:05d}-of-{len(files):05d}.safetensors" for number in range(len(files))]
    if len(files) == 1:
        names = ["model.safetensors"]
    for number, name in enumerate(names):
        (folder / _unfinished(number)).rename(folder / name)
    if len(files) > 1:
        weight_map = {tensor: name for name, tensors in zip(names, files, strict=True) for tensor in tensors}
        index = {"metadata": {"total_size": total_bytes}, "weight_map": weight_map}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")


def _unfinished(number: int) -> str:
    return f".{number}.safetensors"
