"""What a controller has to know of a run's configuration."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """The rules by which groups are asked and batches are cut.

    prompts_per_batch            groups in a batch
    completions_per_prompt       answers in a group
    total_steps                  batches that the run takes in all
    max_tokens                   length limit of the answers to groups that are asked now
    max_staleness                versions between the birth of a group and the version that trains on it, at most
    max_running_groups           groups that are generated at the same time, at most; 0: as many as the staleness
                                 allows
    online_filter                whether groups that teach nothing are given up and replaced
    max_rounds                   a batch is cut short if more than (max_rounds - 1) * prompts groups were given up for
                                 it
    count_truncated_rewards      whether the reward of an answer that was cut off counts
    process_supervision          whether the rewards of steps teach, instead of those of whole answers
    worker_timeout_seconds       a worker that says nothing for so long is dead
    min_lease_seconds            lower bound of the time in which a lease must make progress
    weight_load_timeout_seconds  a worker may draw nothing for so long after new weights were published: it loads them
    vocab_size                   token ids are below this number
    """

    prompts_per_batch: int
    completions_per_prompt: int
    total_steps: int
    max_tokens: int
    max_staleness: int = 1
    max_running_groups: int = 0
    online_filter: bool = True
    max_rounds: int = 4
    temperature: float = 1.0
    count_truncated_rewards: bool = True
    process_supervision: bool = False
    worker_timeout_seconds: float = 15.0
    min_lease_seconds: float = 60.0
    weight_load_timeout_seconds: float = 600.0
    vocab_size: int = 2**32
