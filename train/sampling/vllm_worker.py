"""Code that runs within vLLM's own worker processes."""

from collections.abc import Mapping
from typing import Any


class LoadsFile:
    """A mix-in for vLLM's worker class in each of its processes; see `VllmSampler.load_file`."""

    reload_weights: Any  # the worker's own

    def load_file(self, path: str) -> None:
        from safetensors.torch import load_file

        self.reload_weights(weights_iterator=with_head(load_file(path)))


def with_head(weights: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the tensors with an output layer; files leave it out if it is the embedding itself.

    On a CPU, vLLM keeps a packed copy of that layer and only renews it if the layer is among the tensors.
    """
    embedding = weights.get("model.embed_tokens.weight")
    head = {} if embedding is None else {"lm_head.weight": embedding}
    return list((head | dict(weights)).items())
