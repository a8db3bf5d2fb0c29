"""What many tests share, and is slow to make: a Ray cluster of several nodes on this machine, and a tiny model that
was taught to answer some problems, in a folder and behind a server."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",  # whatever this machine's Ray clusters do otherwise
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
}


class RayCluster:
    """A head that offers no processors, and nodes with one each; all of them are processes of this machine."""

    def __init__(self, folder: str) -> None:
        from ray.cluster_utils import Cluster

        self._folder = folder
        self._cluster = Cluster()
        self.head = self._add(num_cpus=0)
        self.address: str = self._cluster.address

    def add_node(self) -> Any:
        return self._add(num_cpus=1)

    def remove_node(self, node: Any) -> None:
        """As when its plug is pulled: nobody is told."""
        self._cluster.remove_node(node, allow_graceful=False)

    def stop(self) -> None:
        self._cluster.shutdown()

    def _add(self, num_cpus: int) -> Any:
        return self._cluster.add_node(
            num_cpus=num_cpus, object_store_memory=100 << 20, include_dashboard=False, temp_dir=self._folder
        )


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[RayCluster]:
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # short: names of sockets must fit
    with pytest.MonkeyPatch.context() as patch:
        for name, value in _ENVIRONMENT.items():
            patch.setenv(name, value)
        # Where Ray notes the newest cluster's address, whatever temp_dir says: not in the place of another cluster.
        patch.setenv("RAY_TMPDIR", folder)
        os.mkdir(os.path.join(folder, "ray"))
        cluster = RayCluster(folder)
        try:
            yield cluster
        finally:
            cluster.stop()
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the model of tests/tiny_world.py."""
    if find_spec("vllm") is None:
        pytest.skip("vLLM is not installed; `make test` installs it")
    import tiny_world

    return tiny_world.model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="session")
def model_server(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of that model's server."""
    import tiny_world

    with tiny_world.served(tiny_model, tmp_path_factory.mktemp("server") / "log") as url:
        yield url
