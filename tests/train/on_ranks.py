"""The program that each rank of tests/train/learning/test_ranks.py runs: on_ranks.py JOB FOLDER."""

import json
import math
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import random_models
import torch
from learner_states import state_of

from train.config import ModelConfig, ObjectiveConfig, OptimizerConfig, ParallelismConfig
from train.errors import UpdateError
from train.learning import heartbeats
from train.learning import learner as learner_module
from train.learning.learner import Learner

OBJECTIVE = ObjectiveConfig(kl=0.1, entropy=0.01, old="learner", truncation=2.0, aggregation="sequence_mean")
OPTIMIZER = OptimizerConfig(row_tokens=32, schedule="cosine", clip_norm=1e-3)  # shorter than any gradient here


# Small enough that a model is handed over in many parts, and large enough that one is not most of what is measured.
_BUCKET_BYTES = {False: 4096, True: 2**22}


def learner(
    path: str, ranks: ParallelismConfig | None = None, optimizer: OptimizerConfig = OPTIMIZER, **model: Any
) -> Learner:
    return Learner(
        ModelConfig(path, **model), OBJECTIVE, optimizer, temperature=0.9, total_updates=10, seed=0, ranks=ranks,
        timeout_seconds=60,
    )  # fmt: skip


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
    one.update_reference()
    one.snapshot()
    refuse(one)
    updates(one, [5])
    halfway = Path(path).parent / f"halfway-{os.environ.get('WORLD_SIZE', 1)}"
    one.save_state(halfway, from_snapshot=True).result()  # the state from before these updates
    one.load_state(halfway)
    figures += updates(one, [1])
    one.save_pretrained(Path(path).parent / f"saved-{os.environ.get('WORLD_SIZE', 1)}")
    made: dict[str, object] = {
        "figures": figures,
        "state": state_of(one),
        "weights": dict(one.export_weights()),
        "logprobs": one.compute_logprobs(random_models.sequences(5, seed=2)),
    }
    one.close()
    lora = learner(path, lora_rank=2, activation_checkpointing=True)
    made |= {"lora_figures": updates(lora, [0]), "lora_weights": dict(lora.export_weights())}
    lora.close()
    half = learner(path, dtype="bfloat16", activation_checkpointing=True)
    made |= {"half_figures": updates(half, [0]), "half_weights": dict(half.export_weights())}
    half.close()
    both = learner(path, dtype="bfloat16", lora_rank=2)
    made |= {"half_lora_figures": updates(both, [0])}
    both.close()
    moe = learner(random_models.folder(Path(path).parent / "moe", "qwen3-moe"))
    made["expert_weights"] = dict(moe.export_weights())
    moe.close()
    return made


def divide(path: str, result: Path, ranks: ParallelismConfig) -> None:
    """Train on ranks that are divided in some way, with moments on the CPU, and keep what is to be compared."""
    one = learner(path, ranks, replace(OPTIMIZER, offload=True), activation_checkpointing=True)
    if one.rank:
        one.serve_calls()
        return
    figures = updates(one, [0])
    one.save_state(result.with_name(f"state-{result.name}")).result()
    one.load_state(result.with_name(f"state-{result.name}"))
    figures += updates(one, [3])
    torch.save({"figures": figures, "weights": dict(one.export_weights()), "state": state_of(one)}, result)
    one.close()


def measure(path: str, result: Path) -> None:
    """Write by how many bytes this rank's own memory grows, at most, while a model is loaded and handed over."""
    tiny = learner(random_models.folder(result.with_name(f"tiny-{os.environ['RANK']}")))  # what all models need
    hand_over(tiny)
    before, most = own_memory(), [0]
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.002):
            most[0] = max(most[0], own_memory())

    watching = threading.Thread(target=watch)
    watching.start()
    one = Learner(ModelConfig(path), ObjectiveConfig(), OPTIMIZER, temperature=1.0, total_updates=1, seed=0)
    loaded, most[0] = most[0], 0
    hand_over(one)
    handed_over, most[0] = most[0], 0
    ended.set()
    watching.join()
    result.write_text(json.dumps({"loaded": loaded - before, "handed over": handed_over - before}))


def hand_over(one: Learner) -> None:
    """Take the weights and keep none of them, then end."""
    if one.rank:
        one.serve_calls()
    else:
        deque(one.export_weights(), maxlen=0)
        one.close()


def own_memory() -> int:
    """Return the bytes of this process that are not pages of files."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) * 1024


def main() -> None:
    job, path = sys.argv[1:]
    learner_module._BUCKET_BYTES = _BUCKET_BYTES[job == "memory"]
    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    if job == "train" and rank == 0:
        torch.save(train(path), Path(path).parent / "made")
    elif job == "train":
        learner(path).serve_calls()
        learner(path, lora_rank=2, activation_checkpointing=True).serve_calls()
        learner(path, dtype="bfloat16", activation_checkpointing=True).serve_calls()
        learner(path, dtype="bfloat16", lora_rank=2).serve_calls()
        learner(str(Path(path).parent / "moe")).serve_calls()
    elif job == "divide":
        divide(path, Path(path).parent / "copies", ParallelismConfig(shard=2))
        divide(path, Path(path).parent / "context", ParallelismConfig(context=2))
    elif job == "memory":
        measure(path, Path(path).parent / f"memory-{rank}")
    else:
        heartbeats.LOST_SECONDS, heartbeats.FAILURE_GRACE_SECONDS = 5.0, 2
        one = learner(path)
        if job == f"lose-{rank}":
            os.kill(os.getpid(), signal.SIGKILL)
        if job == f"silence-{rank}":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif rank == 0:
            updates(one, range(1000))
        else:
            one.serve_calls()


if __name__ == "__main__":
    main()
