"""Programming problems for verifiers, in problems.parquet. The sandbox of curate-code judges the programs.

`curate export --to verifiers` wrote both files."""

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
    # Programs run in curate's sandbox, so a local process suffices. By default, verifiers would start a container in
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
