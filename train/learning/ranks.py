"""The ranks that share one learner: a single process, or torchrun's processes with FSDP2 shards of the model.

Rank 0 broadcasts each of its calls, and the others repeat it, so all take part in its collectives.
"""

import atexit
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from train import config
from train.errors import LearnerError, UpdateError
from train.learning.heartbeats import Heartbeats

CALL_TIMEOUT_SECONDS = 900.0  # limit of a rank's wait within a call, in which all ranks do the same work
_FILES_TIMEOUT_SECONDS = 3600.0  # longer, because ranks may read and write files at different speeds
_SHUTDOWN_SECONDS = 0.3
_ALLOCATOR_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")  # the user's settings, which take precedence
# Expandable segments, because engine and learner alternately use GPU memory in blocks of different sizes. By default,
# pinned memory is rounded up to powers of two, which adds a quarter to a learner's state. Eight threads pin memory four
# times as fast as one.
_ALLOCATOR_SETTINGS = (
    "expandable_segments:True,pinned_max_round_threshold_mb:16,pinned_max_cached_size_mb:16,"
    "pinned_use_cuda_host_register:True,pinned_num_register_threads:8"
)


class RankGroup:
    """This process's connection to the other ranks.

    timeout_seconds: time limit of a rank's wait for another rank within a call; there is none between calls

    Raises LearnerError if other ranks do not start in time, or if the number of ranks does not fit the settings.
    """

    def __init__(self, settings: config.ParallelismConfig, timeout_seconds: float = CALL_TIMEOUT_SECONDS) -> None:
        self.size = int(os.environ.get("WORLD_SIZE", "1"))
        self.rank = int(os.environ.get("RANK", "0"))
        # The index is needed: in the threads of libraries, "cuda" alone means the machine's first GPU.
        local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        self.device = torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu")
        self.use_device()
        self._copy_stream: Any = None  # stream of copies to the CPU; None without a GPU
        if self.device.type == "cuda":
            self._copy_stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            if not any(name in os.environ for name in _ALLOCATOR_VARIABLES):
                torch._C._accelerator_setAllocatorSettings(_ALLOCATOR_SETTINGS)
        self._shard = settings.shard or self.size  # number of ranks that together hold one copy of the weights
        self.context = settings.context  # number of ranks that share each row
        for key, n_ranks in (("ranks.shard", self._shard), ("ranks.context", self.context)):
            if self.size % n_ranks:
                raise LearnerError(
                    f"{key} = {n_ranks}: the number of ranks, {self.size}, is not a multiple of it. Start more or "
                    f"fewer ranks with torchrun, or change {key}"
                )
        if self.size > 1 and not dist.is_initialized():
            backends = "cpu:gloo,cuda:nccl" if self.device.type == "cuda" else "gloo"
            # The group is never destroyed before exit, because the creation of a second one sometimes hangs.
            try:
                dist.init_process_group(backends, timeout=timedelta(seconds=timeout_seconds))
            except RuntimeError as error:
                raise LearnerError(
                    f"rank {self.rank}: not all of the {self.size} ranks have started within {timeout_seconds:g} s "
                    f"({error}). See the output of the other ranks."
                ) from error
            atexit.register(_leave_group)
        # Collectives of a background thread need their own group, to not interleave with others. None for one rank.
        self.background_group = _create_background_group() if self.size > 1 else None
        self._heartbeats = _start_heartbeats(self.rank, self.size) if self.size > 1 else None
        if self._heartbeats:
            self._heartbeats.ends_process = True

    def check_on_rank_zero(self, check: Callable[[], None]) -> None:
        """Run a check on rank 0. If it raises LearnerError, raise that on all ranks."""
        failure = None
        try:
            if self.rank == 0:
                check()
        except LearnerError as error:
            failure = str(error)
        if (failure := _broadcast(failure)) is not None:
            raise LearnerError(failure)

    def shard(self, policy: nn.Module, layers: list[nn.Module], dtype: torch.dtype) -> None:
        """Shard every weight over the ranks with FSDP, which gathers each layer in `dtype` for its computation.

        Each group of `ranks.shard` successive ranks holds a copy of all weights. Only gradients are exchanged between
        groups. They are summed in float32 instead of averaged, since each rank computes its part of the batch's loss.
        """
        from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

        mesh = _create_mesh(self.device.type, self.size // self._shard, self._shard)
        precision = MixedPrecisionPolicy(
            param_dtype=None if dtype == torch.float32 else dtype,
            reduce_dtype=torch.float32,
            cast_forward_inputs=False,  # keep the angles of rotary embeddings in float32
        )
        for module in (*layers, policy):
            # Reshard the root, too: after a forward pass without backward, its gathered weights would become stale.
            fully_shard(module, mesh=mesh, mp_policy=precision, reshard_after_forward=True)
        for module in policy.modules():
            if isinstance(module, FSDPModule):
                module.set_gradient_divide_factor(1.0)
                module.set_force_sum_reduction_for_comms(True)  # gloo supports only sums

    def get_context_group(self) -> Any:
        """Return the process group that shares this rank's rows; None without context parallelism."""
        if self.context == 1:
            return None
        mesh = _create_mesh(self.device.type, self.size // self.context, self.context)
        return mesh.get_group(mesh.ndim - 1)

    def broadcast_call(self, call: Any) -> None:
        """Send a call from rank 0 to `receive_call` of all other ranks."""
        if self._heartbeats:
            self._heartbeats.announce_call()
            _broadcast(call)

    def receive_call(self) -> Any:
        """Wait for the next `broadcast_call` of rank 0, and return the call."""
        assert self._heartbeats is not None, "there is only one rank"
        self._heartbeats.wait_for_call()
        return _broadcast()

    def all_reduce_sum(self, tensor: Tensor) -> None:
        """Sum a tensor over all ranks, in place."""
        if self.size > 1:
            dist.all_reduce(tensor)

    def is_true_on_all_ranks(self, value: bool) -> bool:
        n_false = torch.tensor(float(not value))
        self.all_reduce_sum(n_false)
        return n_false.item() == 0

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Translate errors due to exhausted memory or lost ranks to LearnerError."""
        try:
            with nullcontext() if self._heartbeats is None else self._heartbeats.guard_call():
                yield
        except UpdateError:
            raise  # raised on all ranks, which can continue
        except LearnerError as error:
            self.announce_failure(str(error))
            raise
        except torch.OutOfMemoryError as error:
            self.announce_failure("a row does not fit into the memory of its GPU")
            raise LearnerError(
                "a row does not fit into the memory of the GPU. Lower optimizer.row_tokens, set "
                f"model.activation_checkpointing, or use more GPUs. ({error})"
            ) from error
        except RuntimeError as error:
            if self._heartbeats is None:
                raise
            loss = self._heartbeats.find_lost_rank() or (
                f"rank {self.rank} of {self.size}: a call has failed, although no rank is lost ({error}). --resume "
                "continues the run."
            )
            self.announce_failure(loss)
            raise LearnerError(loss) from error

    def use_device(self) -> None:
        """Select this rank's GPU in the current thread; CUDA gives new threads the first GPU."""
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)

    @contextmanager
    def use_copy_stream(self) -> Iterator[None]:
        """Copy to pinned memory asynchronously in this block; see `wait_for_copies`."""
        if self._copy_stream is None:
            yield
            return
        self._copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._copy_stream):
            yield

    def wait_for_copies(self, *, on_host: bool) -> None:
        """Wait for the copies of `use_copy_stream`. on_host: block this thread instead of the current CUDA stream."""
        if self._copy_stream is not None and on_host:
            self._copy_stream.synchronize()
        elif self._copy_stream is not None:
            torch.cuda.current_stream().wait_stream(self._copy_stream)

    def announce_failure(self, reason: str) -> None:
        if self._heartbeats:
            self._heartbeats.announce_failure(reason)

    def close(self) -> None:
        """End the supervision of other ranks, which may now exit. No calls may follow."""
        if self._heartbeats:
            self._heartbeats.ends_process = False


def _broadcast(value: Any = None) -> Any:
    """Return rank 0's value on every rank."""
    box = [value]
    dist.broadcast_object_list(box, src=0, device=torch.device("cpu"))
    return box[0]


@cache
def _start_heartbeats(rank: int, size: int) -> Heartbeats:
    heartbeats = Heartbeats(rank, size)
    atexit.register(heartbeats.stop)  # runs before _leave_group
    return heartbeats


@cache
def _create_mesh(device: str, n_copies: int, shard: int) -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    if n_copies == 1:
        return init_device_mesh(device, (shard,))
    return init_device_mesh(device, (n_copies, shard), mesh_dim_names=("copies", "shard"))


@cache
def _create_background_group() -> Any:
    return dist.new_group(backend="gloo", timeout=timedelta(seconds=_FILES_TIMEOUT_SECONDS))


def _leave_group() -> None:
    # Wait until gloo's threads have freed the tensors of the last call. They take the GIL for that, and during
    # interpreter shutdown this would abort the process.
    time.sleep(_SHUTDOWN_SECONDS)
    dist.destroy_process_group()


def shard_like(tensor: Tensor, *, like: Any) -> Tensor:
    """Shard a tensor that all ranks hold in full, in the layout of `like`. Return it unchanged if that is unsharded."""
    if not hasattr(like, "device_mesh"):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor, like.device_mesh, like.placements, src_data_rank=None)


def get_local_shard(tensor: Any) -> Tensor:
    """Return this rank's shard as a plain tensor, without a copy. An unsharded tensor is its own shard."""
    shard: Tensor = tensor.detach().to_local() if hasattr(tensor, "device_mesh") else tensor.detach()
    return shard


def copy_to_host(tensor: Any, into: Any = None) -> Any:
    """Copy this rank's shard to CPU memory; from a GPU, asynchronously to pinned memory.

    into: an earlier copy, to reuse its memory
    """
    if into is None:
        shard = get_local_shard(tensor)
        into = _wrap_like(tensor, torch.empty_like(shard, device="cpu", pin_memory=shard.is_cuda))
    get_local_shard(into).copy_(get_local_shard(tensor), non_blocking=True)
    return into


def copy_to_device(tensor: Any, device: torch.device) -> Tensor:
    """Copy this rank's shard to another device; the copy is a shard, too."""
    return _wrap_like(tensor, get_local_shard(tensor).to(device, copy=True))


def _wrap_like(tensor: Any, shard: Tensor) -> Tensor:
    """Wrap a local shard as a DTensor like `tensor`; return it unchanged if `tensor` is not sharded."""
    if not hasattr(tensor, "device_mesh"):
        return shard
    from torch.distributed.tensor import DTensor

    # DTensor.from_local would move the shard to the GPU again.
    part: Tensor = DTensor(shard, tensor._spec, requires_grad=False)  # type: ignore[no-untyped-call]
    return part


def replicate(tensor: Any) -> Any:
    """Gather a tensor on every rank as a replicated DTensor, which can be multiplied with sharded tensors."""
    if not hasattr(tensor, "device_mesh"):
        return tensor
    from torch.distributed.tensor import Replicate

    return tensor.redistribute(placements=[Replicate()] * tensor.device_mesh.ndim)


def gather_full_tensor(tensor: Tensor) -> Tensor:
    """Gather the full tensor from all ranks, which must all call this."""
    mine: Tensor = tensor.detach()
    return mine.full_tensor() if hasattr(mine, "full_tensor") else mine
