"""A reward manager for verl that scores all completions of a batch concurrently, each as soon as it arrives:

    reward.reward_manager.source=importlib reward.reward_manager.name=RewardManager
    reward.reward_manager.module.path=pkg://rewards.verl_manager reward.num_workers=1

with a dataset that `curate export --to verl --verl-data-source curate` wrote. One manager process suffices, because it
only waits. It opens its own sandbox with a worker per core, or uses the `curate serve` at CURATE_URL. In contrast, the
managers of verl score at most one completion per asyncio thread: six on a machine with two cores.
"""

import asyncio
from typing import Any

from verl import DataProto
from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase

from rewards.process_singletons import get_shared_async_rewards, record_and_get_value
from rewards.reward import Completion, Task
from rewards.verl import UNKNOWN, parse_ground_truth


class RewardManager(RewardManagerBase):
    """A manager that gives the code reward for all tests of a row, instead of calling verl's compute_score."""

    def __init__(self, config: Any, tokenizer: Any, compute_score: Any = None, **_: Any) -> None:
        super().__init__(config, tokenizer, compute_score)
        self._rewards = get_shared_async_rewards()

    async def run_single(self, data: DataProto) -> dict[str, Any]:
        """Return the reward of the last sequence in `data`. verl may make any number of concurrent calls.

        If the reward is unknown, the score is UNKNOWN and `unknown` in reward_extra_info is 1.0; otherwise `unknown` is
        0.0. Raises SandboxError after many unknown rewards; see process_singletons.py.
        """
        item = data[-1:][0]
        response_ids = item.batch["responses"]
        n_tokens = int(item.batch["attention_mask"][-response_ids.shape[-1] :].sum())
        text = self.tokenizer.decode(response_ids[:n_tokens], skip_special_tokens=True)
        task = Task(tests=parse_ground_truth(item.non_tensor_batch["reward_model"]["ground_truth"]))
        reward = await asyncio.wrap_future(self._rewards.submit(Completion(text, n_tokens), task))
        value = record_and_get_value(reward)
        score = UNKNOWN if value is None else value
        extra_info = {"acc": score, "reward_seconds": reward.seconds, "unknown": float(value is None)}
        return {"reward_score": score, "reward_extra_info": extra_info}
