"""The option for the engine that samples a model. All commands that sample have it."""

import os
from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from curate.commands.key_value import parse_assignments

Command = Callable[..., Any]

_ENGINE = click.option(
    "--engine",
    "engine_options",
    multiple=True,
    metavar="KEY=VALUE",
    help="An option of the engine: concurrency (requests at once to a server, or sequences at once in vLLM), "
    "tensor_parallel (GPUs), memory_share (share of each GPU's memory), max_model_len (tokens of prompt and answer), "
    "or any option of vLLM's EngineArgs, such as dtype=bfloat16. Can be given several times.",
)


def engine_option(command: Command) -> Command:
    """Give a command the option --engine; its parameter `engine` is a table for EngineOptions.from_table.

    While the command runs on CPUs, threads of torch that wait for each other sleep, unless OMP_WAIT_POLICY is set: the
    programs that are judged at the same time need the CPUs.
    """

    @_ENGINE
    @wraps(command)
    def with_engine(*arguments: Any, engine_options: tuple[str, ...], **others: Any) -> Any:
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # is read when torch is imported, which comes later
        return command(*arguments, engine=parse_assignments("--engine", engine_options), **others)

    return with_engine
