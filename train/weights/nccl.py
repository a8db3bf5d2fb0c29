"""Broadcast of weights over NCCL from the learner's rank 0 to all engines, by vLLM's weight-transfer engine.

A broadcast needs all engines at the same time, so this transport serves only engines that the trainer started.

The learner's ranks gather tensors while rank 0 yields them. A concurrent gather and broadcast could deadlock, so there
is one buffer: the next gather begins after the broadcast of the previous chunk.
"""

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sandbox.concurrency.timeouts import call_with_timeout
from train.errors import TransferError
from train.weights.manifest import SentTensor
from train.weights.source import Weights, record_checksums

if TYPE_CHECKING:
    from torch import Tensor

BACKEND = "nccl"
_CHUNK_BYTES = 512 * 2**20  # of a chunk; one is in memory in addition to the weights
_LOOPBACK = "127.0.0.1"
_SHUTDOWN_SECONDS = 10.0

# Names of methods of vLLM's workers.
INIT, START, UPDATE, FINISH = (
    "init_weight_transfer_engine", "start_weight_update", "update_weights", "finish_weight_update",
)  # fmt: skip


# Calls a method of all engines' workers concurrently, with arguments for each engine, and waits for the results.
CallEngines = Callable[[str, Sequence[Mapping[str, Any]]], None]


class NcclSender:
    """The learner's side, in rank 0; other ranks only take part in `Learner.export_weights`.

    processes_per_engine  number of processes, and GPUs, of each engine
    call                  raises SamplerError if an engine fails or times out; no engine samples from START to FINISH

    Raises TransferError if there is no GPU.
    """

    def __init__(self, processes_per_engine: Sequence[int], call: CallEngines) -> None:
        import torch

        if not torch.cuda.is_available():
            raise TransferError('engine.transfer = "nccl" sends weights from GPU to GPU, and this machine has none')
        self._device = torch.cuda.current_device()
        self._client = _Client(processes_per_engine, call)
        self._world_size = 1 + sum(processes_per_engine)
        self._engine: Any = None  # vLLM's, once the engines have joined
        self._source: Any = None

    def send(self, weights: Weights, expected: Sequence[SentTensor]) -> list[SentTensor]:
        """Send the tensors to all engines for loading, and return their descriptions.

        expected: names, dtypes and shapes, in order, of an earlier transfer

        Raises TransferError if that fails; the engines are then unusable.
        """
        import torch

        torch.cuda.set_device(self._device)  # per thread, and the constructor may run in another
        torch.cuda.synchronize()  # with the optimizer, since chunks are packed on a separate stream
        sent: list[SentTensor] = []
        try:
            if self._engine is None:
                self._join(expected)
            device = f"cuda:{self._device}"
            self._source.weights = (
                (name, tensor.detach().to(device)) for name, tensor in record_checksums(weights, sent)
            )
            self._engine.send_weights()
        except Exception as error:  # from vLLM, NCCL, CUDA, or because an engine exited
            self._engine = None
            raise TransferError(f"weights could not be sent over NCCL: {error}") from error
        return sent

    def close(self) -> None:
        """Leave the NCCL group, with a timeout, since exited engines would block it."""
        engine, self._engine = self._engine, None
        if engine is not None:
            timeout = TransferError(f"the NCCL group did not shut down within {_SHUTDOWN_SECONDS:g} s")
            with suppress(TransferError):
                call_with_timeout(engine.shutdown, _SHUTDOWN_SECONDS, timeout)

    def _join(self, expected: Sequence[SentTensor]) -> None:
        from vllm.distributed.weight_transfer.factory import WeightTransferTrainerFactory
        from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo

        with socket.socket() as listener:
            listener.bind((_LOOPBACK, 0))
            port = int(listener.getsockname()[1])
        self._source = _create_source(expected)
        self._engine = WeightTransferTrainerFactory.trainer_init(
            NCCLTrainerInitInfo(
                master_address=_LOOPBACK,
                master_port=port,
                world_size=self._world_size,
                rank=0,
                packed=True,
                packed_buffer_size_bytes=_CHUNK_BYTES,
                packed_num_buffers=1,
            ),
            client=self._client,
            source=self._source,
        )


class _Client:
    """The client by which vLLM's trainer engine calls inference (VLLMWeightSyncClient), for several engines."""

    def __init__(self, processes_per_engine: Sequence[int], call: CallEngines) -> None:
        self._processes_per_engine, self._call = processes_per_engine, call

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        # vLLM assumes one engine, whose processes follow the trainer's rank 0.
        offset, infos = int(init_info["rank_offset"]), []
        for processes in self._processes_per_engine:
            infos.append({"init_info": {**init_info, "rank_offset": offset}})
            offset += processes
        self._call(INIT, infos)

    def start_weight_update(self) -> None:
        self._call_all(START, {})

    def update_weights(self, update_info: dict[str, Any] | list[dict[str, Any]]) -> None:
        self._call_all(UPDATE, {"update_info": update_info})

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        del weight_version  # FINISH carries the version already
        self._call_all(FINISH, {})

    def _call_all(self, method: str, arguments: Mapping[str, Any]) -> None:
        self._call(method, [arguments] * len(self._processes_per_engine))


def _create_source(expected: Sequence[SentTensor]) -> Any:
    """Return a vLLM WeightSource that yields its attribute `weights` once."""
    import torch
    from vllm.distributed.weight_transfer.base import ParamMeta, WeightSource

    class Source(WeightSource):
        weights: "Iterator[tuple[str, Tensor]]" = iter(())

        def metadata(self) -> list[ParamMeta]:
            return [ParamMeta(each.name, getattr(torch, each.dtype), tuple(each.shape)) for each in expected]

        def __iter__(self) -> "Iterator[tuple[str, Tensor]]":
            return self.weights

    return Source()
