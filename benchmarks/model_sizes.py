"""The sizes of Qwen2.5, from which R1-Distill-Qwen and QwQ-32B were trained, by the shapes in its configurations."""

from tempfile import TemporaryDirectory

from train.config import Config, DataConfig, ModelConfig, ObjectiveConfig, OptimizerConfig
from train.planning.engine import ModelSize
from train.planning.split import model_size

# Layers, width, heads, key heads, width between, whether the head is the embedding.
_SHAPES = {
    "1.5B": (28, 1536, 12, 2, 8960, True),
    "7B": (28, 3584, 28, 4, 18944, False),
    "14B": (48, 5120, 40, 8, 13824, False),
    "32B": (64, 5120, 40, 8, 27648, False),
}


def qwen2_5(name: str, *, minibatches: int = 2, kl: float = 0.0) -> ModelSize:
    """Return the size of a model trained with activation checkpointing and this number of minibatches."""
    from transformers import Qwen2Config

    layers, width, heads, key_heads, between, is_tied = _SHAPES[name]
    with TemporaryDirectory() as folder:
        Qwen2Config(
            vocab_size=151_936 if is_tied else 152_064, num_hidden_layers=layers, hidden_size=width,
            num_attention_heads=heads, num_key_value_heads=key_heads, intermediate_size=between,
            tie_word_embeddings=is_tied,
        ).save_pretrained(folder)  # fmt: skip
        return model_size(
            Config(
                ModelConfig(folder, activation_checkpointing=True),
                DataConfig(""),
                objective=ObjectiveConfig(kl=kl),
                optimizer=OptimizerConfig(minibatches=minibatches),
            )
        )
