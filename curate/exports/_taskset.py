"""Programming problems for verifiers: rewards are executed in the sandbox of curate-code.

Written by `curate export --to verifiers`, with problems.parquet beside it."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import verifiers.v1 as vf

from rewards.verifiers import CodeData, CodeTask

PROBLEMS = Path(__file__).with_name("problems.parquet")


class ProblemData(CodeData):
    source: str
    licence: str


class ProblemTask(CodeTask[ProblemData]):
    @property
    def key(self) -> str:
        return self.data.id


class ProblemEnvironmentConfig(vf.EnvConfig):
    # Programs run in curate's sandbox, so a local process is enough; without this, verifiers would start a container in
    # Prime's cloud for each reply.
    agent: vf.AgentConfig = vf.AgentConfig.model_validate(
        {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}}
    )


class ProblemEnvironment(vf.Env[ProblemEnvironmentConfig]):
    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        await agents.agent.run(task)


class ProblemTaskset(vf.Taskset[ProblemTask, vf.TasksetConfig]):
    def load(self) -> Iterator[ProblemTask]:
        with pq.ParquetFile(PROBLEMS) as file:
            for batch in file.iter_batches(batch_size=16):
                for row in batch.to_pylist():
                    yield ProblemTask(ProblemData(**row), self.config.task)
