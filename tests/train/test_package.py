"""The public names of the package `train` can be imported, and one base class catches its errors."""

import inspect

import pytest

import train
from train import errors


def test_one_base_class_catches_every_error():
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    assert len(kinds) > 5
    assert all(issubclass(kind, train.TrainError) for kind in kinds)


@pytest.mark.parametrize("name", sorted(set(train.__all__) - {"train", "open_run"}))
def test_public_names_can_be_imported(name):
    assert getattr(train, name).__name__ == name


def test_training_can_be_imported_where_torch_is_installed():
    pytest.importorskip("torch", reason="torch is not installed; `make test` installs it")
    assert callable(train.train)
    assert callable(train.open_run)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'trian'"):
        train.trian  # noqa: B018
