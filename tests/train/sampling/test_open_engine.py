"""A run gets the engine and the GPUs that its configuration asks for."""

import pytest

pytest.importorskip("transformers", reason="transformers is not installed")

from train import config
from train.errors import ConfigError, SamplerError
from train.sampling.engine_spec import resolve_visible_devices
from train.sampling.open_engine import open_engine


def test_with_several_ranks_an_engine_needs_gpus_of_its_own(monkeypatch):
    """An engine in the process of one rank would wait for the other ranks for ever."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match=r"engine\.gpus: the trainer has several ranks"):
        open_engine(config.Config(config.ModelConfig("m"), config.DataConfig("d")))


def test_a_context_without_room_for_a_prompt_is_refused(tiny_model, monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    engine = config.EngineConfig(max_model_len=96)
    with pytest.raises(ConfigError, match="leaves no tokens for a prompt with completions of 96 tokens"):
        open_engine(config.Config(config.ModelConfig(str(tiny_model)), config.DataConfig("d"), engine=engine))


def test_gpus_are_counted_among_those_visible_to_the_run(monkeypatch):
    """The other GPUs of a shared machine belong to somebody else."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert resolve_visible_devices([2, 3]) == "2,3"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,GPU-6,7")
    assert resolve_visible_devices([2, 3]) == "GPU-6,7"
    with pytest.raises(SamplerError, match="there is no GPU 4; CUDA_VISIBLE_DEVICES lists 4 GPUs, indexed from 0"):
        resolve_visible_devices([4])
