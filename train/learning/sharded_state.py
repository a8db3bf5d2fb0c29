"""The learner's state in files, and optimizer moments on the CPU.

torch.distributed.checkpoint writes and reads each rank's shards; another number of ranks can read them. A state is a
dictionary of tensors.
"""

import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Size, Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from train.errors import CheckpointError
from train.learning.ranks import copy_to_device, get_local_shard
from train.weights.source import split_by_bytes

_SHARD_BYTES = 512 * 2**20  # maximum size of the moments that are on the GPU together
_STEP = "step"  # AdamW's number of updates, which is never offloaded

State = Mapping[str, Tensor]


def write_in_background(
    state: State, folder: Path, group: Any, *, begin: Callable[[], None] = lambda: None
) -> Future[None]:
    """Write and fsync a state in a background thread. The state must not change meanwhile.

    group  process group of all ranks, which no other call uses; None for one rank
    begin  called in the background thread before it writes

    All ranks must call this. The future completes when all have written, and raises CheckpointError if one failed.
    """
    written: Future[None] = Future()

    def write() -> None:
        try:
            begin()
            # Without this, torch would copy ahead to a GPU, although all tensors are on the CPU.
            writer = _Writer(folder, sync_files=True, per_thread_copy_ahead=0)
            with _translate_errors():
                save(dict(state), storage_writer=writer, process_group=group, no_dist=group is None)
            written.set_result(None)
        except BaseException as error:  # the future must not stay pending
            written.set_exception(error)

    _ignore_single_process_warning()
    # A daemon thread, so the process can exit after the loss of other ranks, for which this thread waits.
    threading.Thread(target=write, name="checkpoint", daemon=True).start()
    return written


class _Writer(FileSystemWriter):
    """A writer that raises the original OSError, such as ENOSPC, instead of torch's error about its file format."""

    def write_data(self, plan: Any, planner: Any) -> Any:
        try:
            return super().write_data(plan, planner)
        except RuntimeError as error:
            if isinstance(error.__context__, OSError):
                raise error.__context__ from error
            raise


def read_shards(state: State, folder: Path, group: Any) -> None:
    """Read this rank's shards into the tensors of `state`. Raises CheckpointError if the files are damaged."""
    _ignore_single_process_warning()
    reader = FileSystemReader(folder)
    with _translate_errors():
        load(dict(state), storage_reader=reader, process_group=group, no_dist=group is None)


def read_tensor_shapes(folder: Path) -> dict[str, Size]:
    """Read the names and full shapes of a state's tensors. Raises CheckpointError if the files are damaged."""
    try:
        tensors = FileSystemReader(folder).read_metadata().state_dict_metadata
    except Exception as error:  # unpickling a damaged file raises many types of errors
        raise CheckpointError(f"{folder} is damaged ({type(error).__name__}: {error})") from error
    return {name: tensor.size for name, tensor in tensors.items() if isinstance(tensor, TensorStorageMetadata)}


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Translate torch's CheckpointException to CheckpointError with the error of the first failed rank."""
    try:
        yield
    except CheckpointException as error:
        rank, (first, _) = next(iter(error.failures.items()))
        raise CheckpointError(f"rank {rank}: {type(first).__name__}: {first}") from error


def _ignore_single_process_warning() -> None:
    warnings.filterwarnings("ignore", message="torch.distributed is disabled, unavailable or uninitialized")


def step_in_shards(optimizer: torch.optim.Optimizer, weights: Iterable[Any], shard_bytes: int = _SHARD_BYTES) -> None:
    """Run the optimizer's step on groups of weights, whose moments are on the GPU meanwhile. Clear the gradients.

    The result equals that of a single `optimizer.step()`.

    weights: all weights of the optimizer; weights without a gradient stay unchanged
    """
    gradients = {weight: weight.grad for weight in weights if weight.grad is not None}
    for weight in gradients:
        weight.grad = None
    # The factor 2 is for AdamW's two moments. The list is a copy, because the loop removes gradients from the mapping.
    for shard in split_by_bytes(list(gradients), lambda weight: 2 * get_local_shard(weight).nbytes, shard_bytes):
        on_cpu = {weight: optimizer.state.get(weight, {}) for weight in shard}
        for weight in shard:
            weight.grad = gradients.pop(weight)
            if on_cpu[weight]:
                optimizer.state[weight] = {
                    key: value if key == _STEP else copy_to_device(value, get_local_shard(weight).device)
                    for key, value in on_cpu[weight].items()
                }
        optimizer.step()
        for weight in shard:
            weight.grad = None
            optimizer.state[weight] = _copy_to_cpu(optimizer.state[weight], on_cpu[weight])


@torch.no_grad()
def _copy_to_cpu(state: dict[str, Tensor], into: dict[str, Tensor]) -> dict[str, Tensor]:
    """Copy the moments to CPU memory, into the tensors of `into` if it has them."""
    for key in state.keys() & into.keys() - {_STEP}:
        get_local_shard(into[key]).copy_(get_local_shard(state[key]))
    return {
        key: value if key == _STEP else into[key] if key in into else copy_to_device(value, torch.device("cpu"))
        for key, value in state.items()
    }
