"""The state of a learner as whole tensors, for tests that look at it or change it."""

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.filesystem import FileSystemReader

from train.learning import sharded_state


def read(folder: Path) -> dict[str, Any]:
    """Return {"updates": number, "weights": {name: tensor}, "moments": ..., "reference": ...} of a saved state."""
    stored: dict[str, Any] = FileSystemReader(folder).read_metadata().state_dict_metadata
    state = {name: torch.empty(tensor.size, dtype=tensor.properties.dtype) for name, tensor in stored.items()}
    sharded_state.read_shards(state, folder, None)
    kinds: dict[str, Any] = {"weights": {}, "moments": {}, "reference": {}}
    for name, tensor in state.items():
        kind, _, rest = name.partition("/")
        if rest:
            kinds[kind][rest] = tensor
    return {"updates": int(state["updates"]), **kinds}


def state_of(learner: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        learner.save_state(Path(folder) / "state").result()
        return read(Path(folder) / "state")


def load_into(learner: Any, state: dict[str, Any]) -> None:
    """Make a learner continue from such a state."""
    tensors: dict[str, Tensor] = {"updates": torch.tensor(state["updates"])}
    for kind in ("weights", "moments", "reference"):
        tensors |= {f"{kind}/{name}": tensor for name, tensor in state[kind].items()}
    with tempfile.TemporaryDirectory() as folder:
        sharded_state.write_in_background(tensors, Path(folder) / "state", None).result()
        learner.load_state(Path(folder) / "state")
