"""What of the way from GPU to GPU can be shown without one: who is asked what, and that CPUs are refused with words."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from train.errors import TransferError  # noqa: E402
from train.weights.manifest import SentTensor  # noqa: E402
from train.weights.nccl import FINISH, INIT, START, UPDATE, NcclSender, _Client, _create_source  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of vLLM and torch about each other


class Engines:
    processes_per_engine = (2, 1, 2)

    def __init__(self):
        self.calls = []

    def call(self, method, arguments):
        self.calls.append((method, list(arguments)))


def test_every_process_of_every_engine_has_a_rank_of_its_own():
    from vllm.distributed.weight_transfer.base import VLLMWeightSyncClient
    from vllm.distributed.weight_transfer.nccl_common import NCCLWeightTransferInitInfo, worker_init_payload

    engines = Engines()
    client = _Client(engines.processes_per_engine, engines.call)
    assert isinstance(client, VLLMWeightSyncClient)
    info = NCCLWeightTransferInitInfo(master_address="127.0.0.1", master_port=1, rank_offset=1, world_size=6)
    client.init_weight_transfer_engine(worker_init_payload(info))
    client.start_weight_update()
    client.update_weights({"names": ["w"]})
    client.finish_weight_update()
    assert [method for method, _ in engines.calls] == [INIT, START, UPDATE, FINISH]
    offsets = [each["init_info"]["rank_offset"] for each in engines.calls[0][1]]
    ranks = [
        offset + n
        for offset, n_processes in zip(offsets, engines.processes_per_engine, strict=True)
        for n in range(n_processes)
    ]
    assert ranks == [1, 2, 3, 4, 5]
    assert engines.calls[2][1] == [{"update_info": {"names": ["w"]}}] * 3


def test_engines_expect_what_was_sent_before():
    source = _create_source([SentTensor("w", "bfloat16", (3, 4), "00")])
    (meta,) = source.metadata()
    assert (meta.name, meta.dtype, meta.shape) == ("w", torch.bfloat16, (3, 4))
    source.weights = iter([("w", torch.ones(3, 4))])
    assert [name for name, _ in source] == ["w"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_machine_without_a_gpu_is_refused():
    with pytest.raises(TransferError, match="sends weights from GPU to GPU, and this machine has none"):
        NcclSender(Engines.processes_per_engine, Engines().call)
