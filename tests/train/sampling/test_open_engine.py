"""Which engine a run gets, and on which GPUs."""

import pytest

pytest.importorskip("transformers", reason="transformers is not installed")

from train import config
from train.errors import ConfigError
from train.sampling import open_engine
from train.sampling.processes import _visible
from train.sampling.protocol import SamplerError


def test_with_several_ranks_an_engine_needs_gpus_of_its_own(monkeypatch):
    """In the process of one rank it would wait for the others for ever."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match=r"engine\.gpus: the trainer has several ranks"):
        open_engine.opened(config.Config(config.Model("m"), config.Data("d")))


def test_gpus_count_among_those_that_the_run_may_see(monkeypatch):
    """Others on a shared machine belong to somebody else."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert _visible([2, 3]) == "2,3"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,GPU-6,7")
    assert _visible([2, 3]) == "GPU-6,7"
    with pytest.raises(SamplerError, match="there is no GPU 4; CUDA_VISIBLE_DEVICES has 4, from 0 on"):
        _visible([4])
