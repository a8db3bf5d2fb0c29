"""The learner's state in files, written by torch.distributed.checkpoint: each rank writes and reads its own parts only.

A state is a dictionary of tensors, of which each rank holds its parts. It can be read by another number of ranks.
"""

import threading
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from torch import Size, Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from train.errors import CheckpointError

State = Mapping[str, Tensor]


def write_in_background(state: State, folder: Path, group: Any) -> Future[None]:
    """Write a state that does not change meanwhile, in a thread of its own; the files are flushed to the disk.

    group: the ranks, which all call this, and which do nothing else with this group meanwhile; None: there is only one

    The future ends when all ranks have written. It raises CheckpointError if one of them has failed.
    """
    written: Future[None] = Future()

    def write() -> None:
        try:
            _with_plain_errors(
                lambda: save(
                    dict(state),
                    storage_writer=FileSystemWriter(folder, sync_files=True),
                    process_group=group,
                    no_dist=group is None,
                )
            )
        except BaseException as error:  # whatever it is, it must reach those who wait for the future
            written.set_exception(error)
        else:
            written.set_result(None)

    _expect_no_ranks()
    # A daemon, since a process whose other ranks are lost must not wait for them when it ends.
    threading.Thread(target=write, name="checkpoint", daemon=True).start()
    return written


def read(state: State, folder: Path, group: Any) -> None:
    """Read this rank's parts into the tensors of `state`, in place. Raises CheckpointError if the files are damaged."""
    _expect_no_ranks()
    _with_plain_errors(
        lambda: load(dict(state), storage_reader=FileSystemReader(folder), process_group=group, no_dist=group is None)
    )


def tensor_shapes(folder: Path) -> dict[str, Size]:
    """Return the names and whole shapes of the tensors in a folder. Raises CheckpointError if it is damaged."""
    try:
        tensors = FileSystemReader(folder).read_metadata().state_dict_metadata
    except Exception as error:  # many types of exceptions, as for everything that is read with pickle
        raise CheckpointError(f"{folder} is damaged ({type(error).__name__}: {error})") from error
    return {name: tensor.size for name, tensor in tensors.items() if isinstance(tensor, TensorStorageMetadata)}


def _with_plain_errors(work: Callable[[], Any]) -> None:
    """Raise CheckpointError for the first rank that has failed; torch raises a BaseException with all tracebacks."""
    try:
        work()
    except CheckpointException as error:
        rank, (first, _) = next(iter(error.failures.items()))
        raise CheckpointError(f"rank {rank}: {type(first).__name__}: {first}") from error


def _expect_no_ranks() -> None:
    # torch warns if there is only one process, but one is enough. The threads that write share the list of filters.
    warnings.filterwarnings("ignore", message="torch.distributed is disabled, unavailable or uninitialized")
