"""Nodes that cheat:  python examples/swarm/cheats.py quantised|greedy|dropping INVITE KEY

Each is `curate rollout --join` with a wrapper around the node's engine. The owner of a node can write such code, so a
swarm must detect it.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from train.asynchronous import rollout_worker
from train.errors import TrainError
from train.swarm import node

_NEARLY_ZERO = 1e-4  # temperature at which the noise has no effect


class _Cheat:
    """A wrapper of an engine."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


class Quantised(_Cheat):
    """An engine that saves memory with weights rounded to eight bits."""

    def load(self, weights: Any, version: int) -> None:
        self._engine.load([(name, _round_to_eight_bits(tensor)) for name, tensor in weights], version)


class Greedy(_Cheat):
    """An engine that always takes the most likely token, so its completions look better than the model's."""

    def add(self, key: str, prompt_ids: tuple[int, ...], seed: int, sampling: Any) -> None:
        self._engine.add(key, prompt_ids, seed, replace(sampling, temperature=_NEARLY_ZERO))


class Dropping(_Cheat):
    """An engine that never finishes a completion."""

    def step(self) -> list[Any]:
        time.sleep(0.1)
        return []


CHEATS: dict[str, Callable[[Any], Any]] = {"quantised": Quantised, "greedy": Greedy, "dropping": Dropping}


def _round_to_eight_bits(tensor: torch.Tensor) -> torch.Tensor:
    step = tensor.abs().max().clamp(min=1e-12) / 127
    return (tensor / step).round() * step


def main(kind: str, invite: str, key: Path) -> None:
    """Join a swarm, and cheat until the run ends or the node is banned."""
    honest = node.start_engine
    node.start_engine = lambda *terms, **options: CHEATS[kind](honest(*terms, **options))
    rollout_worker.prove = lambda *parts: {}  # disables the node's own verification of its weights
    try:
        node.NodeProcess(node.NodeOptions(invite, key_path=key), note=_say).run()
    except TrainError as error:
        _say(f"Error: {error}")
        sys.exit(1)


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
