"""Workers read weights from this machine's memory if they can, and fetch them from the controller otherwise."""

import time

import fleet
import pytest
from fleet import SETTINGS
from msgspec.structs import replace

torch = pytest.importorskip("torch", reason="torch is not installed")

from train.asynchronous.client import ControllerClient  # noqa: E402
from train.asynchronous.rollout_process import LocalFirstSource  # noqa: E402
from train.asynchronous.server import ControllerServer  # noqa: E402
from train.errors import TransferError  # noqa: E402
from train.sampling.engine_spec import EngineSpec  # noqa: E402
from train.weights.source import SharedMemoryTransport  # noqa: E402


@pytest.fixture
def publisher():
    made = SharedMemoryTransport(file_bytes=50_000)
    yield made
    made.close()


@pytest.fixture
def run(publisher, tmp_path):
    """Return a function that publishes a version, and a worker's controller and source."""
    controller = fleet.controller(SETTINGS, now=time.monotonic)
    server = ControllerServer(
        controller, "127.0.0.1:0", token="secret", run="r", spec=EngineSpec("r", "m", "transformers", 128)
    )
    client = ControllerClient(server.url, "secret")
    client.fetch_engine_spec()
    source = LocalFirstSource(server.url, client.headers, tmp_path / "fetched")

    def publish(version):
        tensors = {f"layers.{n}": torch.full((100, 100), float(version)) for n in range(5)}
        manifest = publisher.publish(tensors.items(), version, None, 1.0)
        controller.publish_weights(manifest)
        return client.wait_for_weights(version - 1, 0.0)

    yield publish, source
    source.close()
    client.close()
    server.close(run_ended=False)


def values(files):
    return {name: float(tensor.mean()) for name, tensor in files}


def test_memory_of_this_machine_is_read_where_it_is(run, tmp_path):
    publish, source = run
    assert set(values(source.fetch(publish(0))).values()) == {0.0}
    assert not (tmp_path / "fetched").exists()


def test_what_this_machine_does_not_have_comes_from_the_controller(run, tmp_path):
    publish, source = run
    for version in range(3):
        manifest = publish(version)
        elsewhere = replace(manifest, folder=manifest.folder.replace("/proc/", "/proc/9"))
        assert set(values(source.fetch(elsewhere)).values()) == {float(version)}
    assert len([path for path in (tmp_path / "fetched").iterdir() if path.name.startswith("weights-")]) == 1
    with pytest.raises(TransferError, match="weights 1 were removed"):
        source.fetch(replace(elsewhere, version=1))


def test_what_was_fetched_can_be_read_after_it_was_replaced(run):
    publish, source = run
    files = source.fetch(publish(0))
    for version in (1, 2, 3):
        publish(version)
    assert set(values(files).values()) == {0.0}
