"""The code reward for verifiers: a task that judges the program in the model's reply in the sandbox.

`curate export --to verifiers` writes packages of such tasks. Custom tasksets can derive from CodeTask too.
"""

import asyncio
from functools import lru_cache
from typing import TypeVar

import verifiers.v1 as vf

from rewards.errors import UnknownReward
from rewards.process_singletons import get_shared_async_rewards, record_and_get_value
from rewards.reward import Completion, Task
from sandbox import Suite

_suite = lru_cache(16)(Suite.from_json)  # the rollouts of a task have the same text


class CodeData(vf.TaskData):
    tests: str
    """JSON text of a sandbox.Suite."""


Data = TypeVar("Data", bound=CodeData)


class CodeTask(vf.Task[Data]):
    @vf.reward
    async def accepted(self, trace: vf.Trace) -> float:
        """Return 1.0 if the program in the last reply passes every test, else 0.0.

        Raises UnknownReward, a SandboxError, if the reward is unknown. verifiers then records an error for this
        rollout instead of a reward.
        """
        task = Task(tests=_suite(self.data.tests))
        reward = await asyncio.wrap_future(get_shared_async_rewards().submit(Completion(trace.last_reply, 0), task))
        value = record_and_get_value(reward)
        if value is None:
            raise UnknownReward(f"the reward of this reply is unknown, {reward.verdict}: {reward.detail}")
        return value
