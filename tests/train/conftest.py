import pytest
import small_runs


@pytest.fixture(scope="session")
def six_problems(tmp_path_factory):
    """The folder of a dataset of the problems in tests/tiny_world.py."""
    return small_runs.dataset(tmp_path_factory.mktemp("six"))


@pytest.fixture
def small(tmp_path, tiny_model, six_problems):
    """The configuration file of a small run."""
    return small_runs.written(tmp_path, tiny_model, six_problems)
