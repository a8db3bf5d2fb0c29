"""The program that each rank of tests/train/learning/test_ranks.py runs: on_ranks.py JOB FOLDER."""

import math
import os
import signal
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import random_models
import torch
from learner_states import state_of

from train.config import Model, Objective, Optimizer
from train.errors import UpdateError
from train.learning import heartbeats
from train.learning.learner import Learner

OBJECTIVE = Objective(kl=0.1, entropy=0.01, old="learner", truncation=2.0, aggregation="sequence_mean")
OPTIMIZER = Optimizer(row_tokens=32, schedule="cosine", clip_norm=1e-3)  # shorter than any gradient here


def learner(path: str, **model: Any) -> Learner:
    return Learner(
        Model(path, **model), OBJECTIVE, OPTIMIZER, temperature=0.9, total_updates=10, seed=0, timeout_seconds=60
    )


def updates(one: Learner, seeds: Iterable[int]) -> list[Any]:
    made = []
    for seed in seeds:
        batch = random_models.sequences(9, seed=seed)
        one.begin_batch(batch)
        # The second minibatch has one sequence, so one rank gets an empty row.
        made += [one.update(batch[:8]), one.update(batch[8:])]
    return made


def refuse(one: Learner) -> None:
    """Make an update that is not finite. All ranks refuse it, and go on."""
    batch = random_models.sequences(9, seed=5)
    one.begin_batch(batch)
    poisoned = [replace(each, advantages=(math.inf,) * len(each.token_ids)) for each in batch]
    try:
        one.update(poisoned)
    except UpdateError:
        return
    raise AssertionError("an update that is not finite was made")


def train(path: str) -> dict[str, object]:
    """Train on two batches, refreshing the reference and restoring the state in between, and return all results."""
    one = learner(path)
    figures = updates(one, [0, 3])  # in the second, policy and reference differ
    one.refresh_reference()
    one.hold()
    refuse(one)
    updates(one, [5])
    halfway = Path(path).parent / f"halfway-{os.environ.get('WORLD_SIZE', 1)}"
    one.save_state(halfway, held=True).result()  # the state from before these updates
    one.load_state(halfway)
    figures += updates(one, [1])
    one.save_pretrained(Path(path).parent / f"saved-{os.environ.get('WORLD_SIZE', 1)}")
    made: dict[str, object] = {
        "figures": figures,
        "state": state_of(one),
        "weights": dict(one.weights()),
        "logprobs": one.logprobs(random_models.sequences(5, seed=2)),
    }
    one.close()
    lora = learner(path, lora_rank=2, activation_checkpointing=True)
    made |= {"lora_figures": updates(lora, [0]), "lora_weights": dict(lora.weights())}
    lora.close()
    half = learner(path, dtype="bfloat16", activation_checkpointing=True)
    made |= {"half_figures": updates(half, [0]), "half_weights": dict(half.weights())}
    half.close()
    both = learner(path, dtype="bfloat16", lora_rank=2)
    made |= {"half_lora_figures": updates(both, [0])}
    both.close()
    return made


def main() -> None:
    job, path = sys.argv[1:]
    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    if job == "train" and rank == 0:
        torch.save(train(path), Path(path).parent / "made")
    elif job == "train":
        learner(path).follow()
        learner(path, lora_rank=2, activation_checkpointing=True).follow()
        learner(path, dtype="bfloat16", activation_checkpointing=True).follow()
        learner(path, dtype="bfloat16", lora_rank=2).follow()
    else:
        heartbeats.LOST_SECONDS, heartbeats.STUCK_SECONDS = 5.0, 2
        one = learner(path)
        if job == f"lose-{rank}":
            os.kill(os.getpid(), signal.SIGKILL)
        if job == f"silence-{rank}":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif rank == 0:
            updates(one, range(1000))
        else:
            one.follow()


if __name__ == "__main__":
    main()
