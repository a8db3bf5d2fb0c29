"""The learner's state in files, and optimizer moments that stay on the CPU.

torch.distributed.checkpoint writes the files: each rank writes and reads its own parts only. A state is a dictionary of
tensors, of which each rank holds its parts. It can be read by another number of ranks.
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
from train.learning.ranks import copy_to_device, local_shard
from train.weights.source import split_by_bytes

_SHARD_BYTES = 512 * 2**20  # of moments that are on the GPU at once
_STEP = "step"  # the number of updates, which stays where it is

State = Mapping[str, Tensor]


def write_in_background(
    state: State, folder: Path, group: Any, *, begin: Callable[[], None] = lambda: None
) -> Future[None]:
    """Write a state that does not change meanwhile, in a thread of its own; the files are flushed to the disk.

    group  the ranks, which all call this, and which do nothing else with this group meanwhile; None: there is only one
    begin  is called in that thread before it writes

    The future ends when all ranks have written. It raises CheckpointError if one of them has failed.
    """
    written: Future[None] = Future()

    def write() -> None:
        try:
            begin()
            # Nothing is copied ahead: torch would do that on a GPU, although all tensors are on the CPU.
            writer = _Writer(folder, sync_files=True, per_thread_copy_ahead=0)
            with _translate_errors():
                save(dict(state), storage_writer=writer, process_group=group, no_dist=group is None)
            written.set_result(None)
        except BaseException as error:  # whatever it is, it must reach those who wait for the future
            written.set_exception(error)

    _expect_no_ranks()
    # A daemon, since a process whose other ranks are lost must not wait for them when it ends.
    threading.Thread(target=write, name="checkpoint", daemon=True).start()
    return written


class _Writer(FileSystemWriter):
    """Raises the OSError of a full disk, for example, which torch's own error about its file format hides."""

    def write_data(self, plan: Any, planner: Any) -> Any:
        try:
            return super().write_data(plan, planner)
        except RuntimeError as error:
            if isinstance(error.__context__, OSError):
                raise error.__context__ from error
            raise


def read(state: State, folder: Path, group: Any) -> None:
    """Read this rank's parts into the tensors of `state`, in place. Raises CheckpointError if the files are damaged."""
    _expect_no_ranks()
    reader = FileSystemReader(folder)
    with _translate_errors():
        load(dict(state), storage_reader=reader, process_group=group, no_dist=group is None)


def tensor_shapes(folder: Path) -> dict[str, Size]:
    """Return the names and whole shapes of the tensors in a folder. Raises CheckpointError if it is damaged."""
    try:
        tensors = FileSystemReader(folder).read_metadata().state_dict_metadata
    except Exception as error:  # many types of exceptions, as for everything that is read with pickle
        raise CheckpointError(f"{folder} is damaged ({type(error).__name__}: {error})") from error
    return {name: tensor.size for name, tensor in tensors.items() if isinstance(tensor, TensorStorageMetadata)}


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Raise CheckpointError for the first rank that has failed; torch raises a BaseException with all tracebacks."""
    try:
        yield
    except CheckpointException as error:
        rank, (first, _) = next(iter(error.failures.items()))
        raise CheckpointError(f"rank {rank}: {type(first).__name__}: {first}") from error


def _expect_no_ranks() -> None:
    # torch warns if there is only one process, but one is enough. The threads that write share the list of filters.
    warnings.filterwarnings("ignore", message="torch.distributed is disabled, unavailable or uninitialized")


def step_in_shards(optimizer: torch.optim.Optimizer, weights: Iterable[Any], shard_bytes: int = _SHARD_BYTES) -> None:
    """Make the optimizer's step, and remove the gradients. The numbers are those of `optimizer.step()`.

    weights: all that the optimizer trains; those without a gradient stay as they are
    """
    gradients = {weight: weight.grad for weight in weights if weight.grad is not None}
    for weight in gradients:
        weight.grad = None
    # AdamW has two moments. The list is made first, since gradients are taken out of the mapping meanwhile.
    for shard in split_by_bytes(list(gradients), lambda weight: 2 * local_shard(weight).nbytes, shard_bytes):
        at_home = {weight: optimizer.state.get(weight, {}) for weight in shard}
        for weight in shard:
            weight.grad = gradients.pop(weight)
            if at_home[weight]:
                optimizer.state[weight] = {
                    key: value if key == _STEP else copy_to_device(value, local_shard(weight).device)
                    for key, value in at_home[weight].items()
                }
        optimizer.step()
        for weight in shard:
            weight.grad = None
            optimizer.state[weight] = _copy_to_cpu(optimizer.state[weight], at_home[weight])


@torch.no_grad()
def _copy_to_cpu(state: dict[str, Tensor], home: dict[str, Tensor]) -> dict[str, Tensor]:
    """Copy the moments to the memory of the CPU, to where they were before if they were there."""
    for key in state.keys() & home.keys() - {_STEP}:
        local_shard(home[key]).copy_(local_shard(state[key]))
    return {
        key: value if key == _STEP else home[key] if key in home else copy_to_device(value, torch.device("cpu"))
        for key, value in state.items()
    }
