import pytest
import small_runs


@pytest.fixture(scope="session")
def six_problems(tmp_path_factory):
    """Return the folder of a dataset with the problems of tests/tiny_world.py."""
    return small_runs.dataset(tmp_path_factory.mktemp("six"))


@pytest.fixture
def small(tmp_path, tiny_model, six_problems):
    """Return the configuration file of a small run."""
    return small_runs.written(tmp_path, tiny_model, six_problems)


@pytest.fixture
def file(tmp_path):
    """Return a function that writes a configuration file and returns its path."""

    def write(text):
        path = tmp_path / "run.toml"
        path.write_text(text)
        return path

    return write
