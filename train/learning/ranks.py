"""The processes that share one learner: those torchrun started, each with a part of the model (FSDP2), or just one.

Rank 0 drives and tells the others each call; they make it with the same arguments, and meet in its collectives.
"""

import atexit
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from train.errors import LearnerError

_LEAVE_SECONDS = 0.3


class Ranks:
    """timeout_seconds: how long a rank waits for another, and so the longest pause that rank 0 may make between two
    calls, which is the time that sampling takes."""

    def __init__(self, timeout_seconds: float) -> None:
        self.size = int(os.environ.get("WORLD_SIZE", "1"))
        self.rank = int(os.environ.get("RANK", "0"))
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        if self.device == "cuda":
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        if self.size > 1 and not dist.is_initialized():
            backends = "cpu:gloo,cuda:nccl" if self.device == "cuda" else "gloo"
            # For as long as the process lives: a second group in one process waits for ever now and then.
            dist.init_process_group(backends, timeout=timedelta(seconds=timeout_seconds))
            atexit.register(_leave)

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """One rank of each machine after another."""
        if self.size == 1:
            yield
            return
        machines: list[str] = [""] * self.size
        dist.all_gather_object(machines, socket.gethostname())
        turns = [machines[:rank].count(machine) for rank, machine in enumerate(machines)]
        for turn in range(max(turns) + 1):
            if turn == turns[self.rank]:
                yield
            dist.all_reduce(torch.zeros(1))  # a barrier; on the processor, where NCCL has none

    def shard(self, policy: nn.Module, layers: list[nn.Module], dtype: torch.dtype) -> None:
        """Each rank keeps its part of every weight, in float32; a layer is whole, in dtype, while it computes.
        Gradients are added up in float32: what a rank computes is its part of the minibatch's loss, no mean."""
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

        mesh = init_device_mesh(self.device, (self.size,))
        precision = MixedPrecisionPolicy(
            param_dtype=None if dtype == torch.float32 else dtype,
            reduce_dtype=torch.float32,
            cast_forward_inputs=False,  # angles of rotary embeddings stay float32
        )
        for module in (*layers, policy):
            # Resharding after forward, at the root too: else a forward pass without a backward leaves weights whole,
            # and the next one would compute with them though they have been changed since.
            fully_shard(module, mesh=mesh, mp_policy=precision, reshard_after_forward=True)
        for module in policy.modules():
            if isinstance(module, FSDPModule):
                module.set_gradient_divide_factor(1.0)
                module.set_force_sum_reduction_for_comms(True)  # gloo knows no other

    def tell(self, call: Any) -> None:
        """From rank 0 to those that `hear`."""
        if self.size > 1:
            dist.broadcast_object_list([call], src=0, device=torch.device("cpu"))

    def hear(self) -> Any:
        box: list[Any] = [None]
        dist.broadcast_object_list(box, src=0, device=torch.device("cpu"))
        return box[0]

    def add_up(self, tensor: Tensor) -> None:
        """In place, over all ranks."""
        if self.size > 1:
            dist.all_reduce(tensor)

    def spread(self, into: Any, from_rank_0: Tensor | None) -> None:
        """What rank 0 has whole goes to where the ranks have their parts of it."""
        if not hasattr(into, "device_mesh"):
            if from_rank_0 is not None:
                into.copy_(from_rank_0)
            if self.size > 1:
                dist.broadcast(into, src=0)
            return
        from torch.distributed.tensor import distribute_tensor

        given = torch.empty(into.shape, dtype=into.dtype) if from_rank_0 is None else from_rank_0.to(into.dtype)
        into.copy_(distribute_tensor(given.to(self.device), into.device_mesh, into.placements))

    @contextmanager
    def named_errors(self) -> Iterator[None]:
        """Raises LearnerError in place of what memory and lost ranks raise."""
        try:
            yield
        except torch.OutOfMemoryError as error:
            raise LearnerError(
                "the memory of the GPU does not hold a row. Set optimizer.row_tokens lower, or "
                f"model.activation_checkpointing, or use more GPUs. ({error})"
            ) from error
        except RuntimeError as error:
            if self.size == 1:
                raise
            raise LearnerError(
                f"rank {self.rank} of {self.size} has lost the others, or they have failed first; see what they say. "
                f"With --resume the run continues. ({error})"
            ) from error


def _leave() -> None:
    """A thread of gloo lets go of the tensors of the last call with the interpreter's lock. One that asks for it only
    once the interpreter ends aborts the process, whose work was done."""
    time.sleep(_LEAVE_SECONDS)
    dist.destroy_process_group()


def whole(tensor: Tensor) -> Tensor:
    """Of all ranks' parts one tensor; all ranks must call it."""
    mine: Tensor = tensor.detach()
    return mine.full_tensor() if hasattr(mine, "full_tensor") else mine
