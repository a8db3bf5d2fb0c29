"""Programming problems for verifiers: rewards are executed in the sandbox of curate-code.

Written by `curate export --to verifiers`, with problems.parquet beside it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import verifiers.v1 as vf

from rewards.execution import reward, shared_sandbox
from sandbox import Suite

PROBLEMS = Path(__file__).with_name("problems.parquet")


class ProblemData(vf.TaskData):
    tests: str
    """JSON text of a sandbox.Suite."""
    source: str
    licence: str


class ProblemTask(vf.Task[ProblemData]):
    @property
    def key(self) -> str:
        return self.data.id

    @vf.reward
    async def accepted(self, trace: vf.Trace) -> float:
        """1.0 if the program in the last reply passes every test. A sandbox that fails is an error of the task, which
        verifiers keeps apart from a reward of zero."""
        return await asyncio.to_thread(self._judged, trace.last_reply)

    def _judged(self, reply: str) -> float:
        return reward(reply, Suite.from_json(self.data.tests), shared_sandbox())


class ProblemTaskset(vf.Taskset[ProblemTask, vf.TasksetConfig]):
    def load(self) -> Iterator[ProblemTask]:
        with pq.ParquetFile(PROBLEMS) as file:
            for batch in file.iter_batches(batch_size=16):
                for row in batch.to_pylist():
                    yield ProblemTask(ProblemData(**row), self.config.task)
