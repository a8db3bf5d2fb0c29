import pytest
from shared_workers import shared_workers

from sandbox import Sandbox


@pytest.fixture(scope="module", autouse=True)
def _shared_workers():
    with shared_workers():
        yield


@pytest.fixture(scope="module")
def box():
    with Sandbox(workers=2) as box:
        yield box


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """Give the test a folder of its own for what is kept from one evaluation to the next."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
