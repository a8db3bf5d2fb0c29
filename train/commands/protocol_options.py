"""The options that decide how `curate evaluate` asks a model: a protocol, and what the user gives instead."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from train.commands.finite_range import FiniteRange
from train.evaluation.extraction.registry import NAMES as EXTRACTIONS
from train.evaluation.protocols.overrides import CHAT, COMPLETE, ProtocolOverrides
from train.evaluation.protocols.registry import FORMS, OWN_FORM, PROTOCOLS

Command = Callable[..., Any]
_OPTIONS = (
    click.option(
        "--protocol",
        type=click.Choice(list(PROTOCOLS)),
        help="Measure as others did: their prompts, and their values of the options below, unless given.  "
        "[default: none]",
    ),
    click.option(
        "--k", type=click.IntRange(min=1), help="Number of samples per problem.  [default: 8, or the protocol's]"
    ),
    click.option(
        "--window",
        metavar="FROM..TO",
        help="Use only contests held in this window, both days included: 2024-08-01..2025-01-31; '' for all.  "
        "[default: all, or the protocol's]",
    ),
    click.option(
        "--temperature", type=FiniteRange(0, 2), help="Sampling temperature.  [default: 0.6, or the protocol's]"
    ),
    click.option(
        "--top-p",
        type=FiniteRange(0, 1, min_open=True),
        help="Probability mass of the tokens that are sampled from.  [default: 0.95, or the protocol's]",
    ),
    click.option(
        "--max-tokens",
        type=click.IntRange(min=1),
        help="Maximum number of tokens in an answer.  [default: 16384, or the protocol's]",
    ),
    click.option(
        "--stop",
        multiple=True,
        metavar="TEXT",
        help="A text that ends an answer; '' for none. Can be given several times.  [default: none, or the protocol's]",
    ),
    click.option(
        "--extraction",
        type=click.Choice(EXTRACTIONS),
        help="How the program is found in an answer.  [default: curate, or the protocol's]",
    ),
    click.option(
        "--form",
        type=click.Choice([OWN_FORM, *FORMS]),
        help="Official form of the prompt, or curate for our own.  [default: curate, or the protocol's]",
    ),
    click.option(
        "--mode",
        type=click.Choice([CHAT, COMPLETE]),
        help="Ask in a chat, or let a base model continue the text of a program.  [default: chat]",
    ),
    click.option(
        "--prefill",
        metavar="TEXT",
        help="Beginning of the model's own message, which it continues.  [default: none, or the protocol's]",
    ),
)


def protocol_options(command: Command) -> Command:
    """Give a command these options; its parameters are `protocol`, a name or None, and `wishes`."""

    @wraps(command)
    def with_protocol(*arguments: Any, stop: tuple[str, ...], **others: Any) -> Any:
        given = {name: others.pop(name) for name in ProtocolOverrides.__dataclass_fields__ if name != "stop"}
        return command(*arguments, wishes=ProtocolOverrides(**given, stop=stop or None), **others)

    for option in reversed(_OPTIONS):
        with_protocol = option(with_protocol)
    return with_protocol
