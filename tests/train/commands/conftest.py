import pytest
from shared_workers import shared_workers


@pytest.fixture(scope="module", autouse=True)
def _shared_workers():
    with shared_workers():
        yield
