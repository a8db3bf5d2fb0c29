"""The reward for verifiers: a task whose replies are programs, rewarded in the sandbox. `curate export --to verifiers`
writes packages of such tasks; a taskset of one's own derives from CodeTask in the same way.
"""

import asyncio
from functools import lru_cache
from typing import TypeVar

import verifiers.v1 as vf

from rewards.reward import Answer, Task
from rewards.shared import counted, shared_rewards
from sandbox import SandboxError, Suite

_suite = lru_cache(16)(Suite.from_json)  # the rollouts of a task bring the same text


class CodeData(vf.TaskData):
    tests: str
    """JSON text of a sandbox.Suite; all of its cases are run."""


Data = TypeVar("Data", bound=CodeData)


class CodeTask(vf.Task[Data]):
    @vf.reward
    async def accepted(self, trace: vf.Trace) -> float:
        """1.0 if the program in the last reply passes every test. Raises SandboxError where nothing is known. That is
        verifiers' word for it: it records the error with this one rollout, apart from a reward of zero."""
        task = Task(tests=_suite(self.data.tests))
        scored = await asyncio.wrap_future(shared_rewards().submit(Answer(trace.last_reply, 0), task))
        value = counted(scored)
        if value is None:
            raise SandboxError(f"nothing is known of this reply, {scored.verdict}: {scored.detail}")
        return value
