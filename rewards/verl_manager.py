"""A reward manager for verl, which scores all that it is brought at once, each completion as soon as it is there:

    reward.reward_manager.source=importlib reward.reward_manager.name=RewardManager
    reward.reward_manager.module.path=pkg://rewards.verl_manager reward.num_workers=1

on a dataset that `curate export --to verl --verl-data-source curate` wrote. One process of it is enough, since it only
waits; each has a sandbox of its own, with a worker for each core, or the `curate serve` that CURATE_URL names. verl's
own managers score no more completions at once than asyncio has threads, six on a machine of two cores.
"""

import asyncio
from typing import Any

from verl import DataProto
from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase

from rewards.reward import Answer, Task
from rewards.shared import counted, shared_rewards
from rewards.verl import UNKNOWN, suite_of_ground_truth


class RewardManager(RewardManagerBase):
    """The code reward over all tests of a row. verl's compute_score is not asked."""

    def __init__(self, config: Any, tokenizer: Any, compute_score: Any = None, **_: Any) -> None:
        super().__init__(config, tokenizer, compute_score)
        self._rewards = shared_rewards()

    async def run_single(self, data: DataProto) -> dict[str, Any]:
        """The reward of the last sequence in `data`; verl has as many of these under way as it likes.

        A completion that nothing is known of gets UNKNOWN, and 1.0 under `unknown` in reward_extra_info, which is 0.0
        for all others. Raises SandboxError for a run of many of them; see unknown.py.
        """
        item = data[-1:][0]
        response_ids = item.batch["responses"]
        n_tokens = int(item.batch["attention_mask"][-response_ids.shape[-1] :].sum())
        text = self.tokenizer.decode(response_ids[:n_tokens], skip_special_tokens=True)
        task = Task(tests=suite_of_ground_truth(item.non_tensor_batch["reward_model"]["ground_truth"]))
        scored = await asyncio.wrap_future(self._rewards.submit(Answer(text, n_tokens), task))
        known = counted(scored)
        value = UNKNOWN if known is None else known
        extra = {"acc": value, "reward_seconds": scored.seconds, "unknown": float(known is None)}
        return {"reward_score": value, "reward_extra_info": extra}
