"""The shapes of Qwen2.5, the base of R1-Distill-Qwen and QwQ-32B."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from train.config import Config, DataConfig, ModelConfig, OptimizerConfig
from train.planning.engine import ModelSize
from train.planning.split import build_model_size

_COLUMNS = (
    "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "intermediate_size",
    "tie_word_embeddings", "vocab_size",
)  # fmt: skip
_SHAPES = {
    "1.5B": (28, 1536, 12, 2, 8960, True, 151_936),
    "7B": (28, 3584, 28, 4, 18944, False, 152_064),
    "14B": (48, 5120, 40, 8, 13824, False, 152_064),
    "32B": (64, 5120, 40, 8, 27648, False, 152_064),
}


def save_qwen2_5(name: str, folder: Path, **changes: int) -> None:
    """Write the configuration of a model, with changed values."""
    from transformers import Qwen2Config

    values: dict[str, Any] = dict(zip(_COLUMNS, _SHAPES[name], strict=True)) | changes
    Qwen2Config(**values).save_pretrained(folder)


def load_qwen2_5_size(name: str, *, minibatches: int = 2) -> ModelSize:
    """Return the size of a model, for training with activation checkpointing."""
    with TemporaryDirectory() as folder:
        save_qwen2_5(name, Path(folder))
        return build_model_size(
            Config(
                ModelConfig(folder, activation_checkpointing=True),
                DataConfig(""),
                optimizer=OptimizerConfig(minibatches=minibatches),
            )
        )
