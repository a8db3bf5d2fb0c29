"""What the targets share: prompts, suites as records of `curate judge`, and Parquet files of nested rows."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curate.dataset.writer import ROW_GROUP_BYTES, ROW_GROUP_ROWS
from curate.problem import Problem
from curate.prompt import Chat, PromptFormat
from sandbox import Case, Limits, Suite

if TYPE_CHECKING:
    import pyarrow as pa

UNSUPPORTED_LIMITS_MESSAGE = "limits of its own beside wall time and memory, which a record cannot express"


def conversation(problem: Problem, prompt: PromptFormat) -> Chat:
    """Return the messages of the conversation about a problem: the system prompt, if there is one, and the question."""
    return prompt.chat(problem.statement, problem.starter_code, problem.tests)


def question(problem: Problem, prompt: PromptFormat) -> str:
    """Return the content of the conversation's last message, without the system prompt."""
    return conversation(problem, prompt)[-1]["content"]


def template_arguments_note(prompt: PromptFormat, remedy: str) -> str:
    """Return what a README says about arguments of the chat template; it is empty if there are none.

    remedy: a sentence that says how the trainer takes them
    """
    if not prompt.template_arguments:
        return ""
    arguments = ", ".join(f"{name} = {json.dumps(value)}" for name, value in prompt.template_arguments.items())
    return (
        f"\nThe prompts are meant for the chat template with {arguments}. Rows cannot hold such arguments, so the "
        f"manifest only records them. {remedy}\n"
    )


def has_nondefault_limits(suite: Suite) -> bool:
    """Say whether the suite has limits that a record cannot express."""
    default = Limits()
    return replace(suite.limits, wall_seconds=default.wall_seconds, memory_mb=default.memory_mb) != default


def suite_record(suite: Suite) -> dict[str, Any]:
    """Return the fields of a record of `curate judge` for a suite; sandbox.judge_record.parse_suite is the inverse."""
    record: dict[str, Any] = {
        "kind": "stdin" if suite.entry_point is None else "function",
        "fn_name": suite.entry_point,
        "tests": list(map(_case_record, suite.cases)),
        "time_limit_s": suite.limits.wall_seconds,
        "memory_limit_mb": suite.limits.memory_mb,
        "checker": suite.checker,
    }
    if suite.referee is not None:
        program, convention = suite.referee.program, suite.referee.convention
        record["referee"] = {"code": program.source, "language": program.language, "convention": convention.value}
    if suite.assertions is not None:
        record["kind"] = "assertions"
        record["names"], record["classes"] = list(suite.assertions.names), list(suite.assertions.classes)
        record["given"], record["setup"] = suite.assertions.given, suite.assertions.setup
    return record


def _case_record(case: Case) -> dict[str, str]:
    record = {"input": case.input, "output": case.expected}
    return {**record, "trial": case.trial} if case.trial else record


def conversation_type() -> "pa.DataType":
    """Return the type of a column of conversations that datasets and trainers use."""
    import pyarrow as pa

    return pa.list_(pa.struct({"role": pa.string(), "content": pa.string()}))


def write_parquet(rows: Iterable[tuple[Mapping[str, object], int]], schema: "pa.Schema", path: Path) -> None:
    """Write rows, each given with its approximate size in bytes. At most one row group is held in memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    group: list[Mapping[str, object]] = []
    held = 0
    with pq.ParquetWriter(path, schema, compression="zstd", write_page_index=True) as writer:
        for row, size in rows:
            group.append(row)
            held += size
            if held >= ROW_GROUP_BYTES or len(group) >= ROW_GROUP_ROWS:
                writer.write_table(pa.Table.from_pylist(group, schema=schema))
                group, held = [], 0
        if group:
            writer.write_table(pa.Table.from_pylist(group, schema=schema))
