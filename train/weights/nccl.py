"""Weights from GPU to GPU: the learner's first rank broadcasts them over NCCL to all processes of all engines.

vLLM's own weight-transfer engine does the work. A broadcast needs all engines at the same time, so this way is for
engines that the trainer has started itself, not for workers that come and go. Nothing of it runs on CPUs.

The learner's ranks gather tensors while the first one yields them. A gather and a broadcast that wait for each other
would hang, so the next gather begins when the broadcast of the chunk before is finished (one buffer).
"""

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sandbox.concurrency.timeouts import call_with_timeout
from train.errors import TransferError
from train.weights.manifest import SentTensor
from train.weights.source import Weights, with_checksums

if TYPE_CHECKING:
    from torch import Tensor

BACKEND = "nccl"
_CHUNK_BYTES = 512 * 2**20  # tensors are sent in chunks of this size, of which one is in memory besides
_LOOPBACK = "127.0.0.1"
_SHUTDOWN_SECONDS = 10.0

# Methods of vLLM's workers.
INIT, START, UPDATE, FINISH = (
    "init_weight_transfer_engine", "start_weight_update", "update_weights", "finish_weight_update",
)  # fmt: skip


# Calls a method of the workers of all engines at once, with arguments for each engine, and waits for them.
CallEngines = Callable[[str, Sequence[Mapping[str, Any]]], None]


class NcclSender:
    """The learner's side. Its first rank makes one; the others take part in `Learner.export_weights` alone.

    processes_per_engine  number of processes of each engine, each of which has a GPU
    call                  raises SamplerError if an engine fails or takes too long; no engine samples from START to
                          FINISH

    Raises TransferError if there is no GPU.
    """

    def __init__(self, processes_per_engine: Sequence[int], call: CallEngines) -> None:
        import torch

        if not torch.cuda.is_available():
            raise TransferError('engine.transfer = "nccl" sends weights from GPU to GPU, and there is none here')
        self._device = torch.cuda.current_device()
        self._client = _Client(processes_per_engine, call)
        self._world_size = 1 + sum(processes_per_engine)
        self._engine: Any = None  # vLLM's, once the engines have joined
        self._source: Any = None

    def send(self, weights: Weights, expected: Sequence[SentTensor]) -> list[SentTensor]:
        """Send the tensors to all engines, which load them, and return what was sent.

        expected: names, dtypes and shapes in their order, as at an earlier hand-over

        Raises TransferError if that fails. Then the engines are of no use any more.
        """
        import torch

        torch.cuda.set_device(self._device)  # this may be another thread than the one that made the sender
        torch.cuda.synchronize()  # the optimizer has finished: chunks are packed on a stream of their own
        sent: list[SentTensor] = []
        try:
            if self._engine is None:
                self._join(expected)
            device = f"cuda:{self._device}"
            self._source.weights = (
                (name, tensor.detach().to(device)) for name, tensor in with_checksums(weights, sent)
            )
            self._engine.send_weights()
        except Exception as error:  # of vLLM, NCCL and CUDA, and of engines that are gone
            self._engine = None
            raise TransferError(f"weights could not be sent over NCCL: {error}") from error
        return sent

    def close(self) -> None:
        """Leave the group. That is given up soon, since it can wait for engines that are gone."""
        engine, self._engine = self._engine, None
        if engine is not None:
            late = TransferError("the group was not left in time")
            with suppress(TransferError):
                call_with_timeout(engine.shutdown, _SHUTDOWN_SECONDS, late)

    def _join(self, expected: Sequence[SentTensor]) -> None:
        from vllm.distributed.weight_transfer.factory import WeightTransferTrainerFactory
        from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo

        with socket.socket() as listener:
            listener.bind((_LOOPBACK, 0))
            port = int(listener.getsockname()[1])
        self._source = _source(expected)
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
    """What vLLM's trainer engine calls in order to talk to inference (VLLMWeightSyncClient), for several engines."""

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
        del weight_version  # the engines know it: FINISH comes with the number of the weights
        self._call_all(FINISH, {})

    def _call_all(self, method: str, arguments: Mapping[str, Any]) -> None:
        self._call(method, [arguments] * len(self._processes_per_engine))


def _source(expected: Sequence[SentTensor]) -> Any:
    """Return a source of vLLM's kind. It yields what its attribute `weights` holds, once."""
    import torch
    from vllm.distributed.weight_transfer.base import ParamMeta, WeightSource

    class Source(WeightSource):
        weights: "Iterator[tuple[str, Tensor]]" = iter(())

        def metadata(self) -> list[ParamMeta]:
            return [ParamMeta(each.name, getattr(torch, each.dtype), tuple(each.shape)) for each in expected]

        def __iter__(self) -> "Iterator[tuple[str, Tensor]]":
            return self.weights

    return Source()
