"""What vLLM's own worker processes do for us beside their work."""

from collections.abc import Mapping
from typing import Any


class LoadsFile:
    """Mixed into vLLM's worker class, in each of its processes; see `VllmSampler.load_file`."""

    reload_weights: Any  # the worker's own

    def load_file(self, path: str) -> None:
        from safetensors.torch import load_file

        self.reload_weights(weights_iterator=with_head(load_file(path)))


def with_head(weights: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The tensors with an output layer, which a model leaves out where it is the embedding itself: on processors vLLM
    has packed a copy of it, and makes that anew only if the layer is named."""
    embedding = weights.get("model.embed_tokens.weight")
    head = {} if embedding is None else {"lm_head.weight": embedding}
    return list((head | dict(weights)).items())
