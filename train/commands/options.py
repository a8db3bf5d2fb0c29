"""Print a table of texts: the first column on the left, the others on the right.

MERGED A type of options for numbers.

MERGED A check of options that name servers by their URL.

MERGED The option --language, by which commands judge answers that are not in Python.

MERGED Let a worker leave politely when its command is told to end.

MERGED The options that name the configuration of a run. All commands that read one have them.

MERGED The help of a command whose configuration file has keys: they are listed below its options.

MERGED The option for the engine that samples a model. All commands that sample have it.

MERGED The options for what a provider charges.

MERGED The options that decide how `curate evaluate` asks a model: a protocol, and what the user gives instead.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from math import isfinite
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import urlsplit

import click

from curate.commands.key_value import parse_assignments
from sandbox.commands.table import TableColumn, TableRow, print_table
from train.evaluation.extraction import NAMES as EXTRACTIONS
from train.evaluation.protocols.forms import FORMS
from train.evaluation.protocols.registry import CHAT, COMPLETE, OWN_FORM, PROTOCOLS
from train.evaluation.protocols.settings import ProtocolOverrides

if TYPE_CHECKING:
    from train.config import Config


def print_cells(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print the rows below the names of their columns, each column as wide as its longest cell."""
    widths = [max(map(len, column)) + 2 for column in zip(names, *rows, strict=True)]
    widths[0] -= 2
    print_table(
        [
            TableColumn(name, width, is_text=place == 0)
            for place, (name, width) in enumerate(zip(names, widths, strict=True))
        ],
        [TableRow(list(row)) for row in rows],
    )


class FiniteRange(click.FloatRange):
    """A range of numbers without `nan`, which is never outside of a range, and without infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


Given = TypeVar("Given", str, tuple[str, ...])


def validate_urls(context: click.Context, option: click.Parameter, value: Given) -> Given:
    """Return the value of an option as it is: one URL, several, or none. A callback of click.

    Raises click.BadParameter for what does not begin with http:// or https:// and the name of a host.
    """
    for url in (value,) if isinstance(value, str) else value:
        if url and not _is_url(url):
            raise click.BadParameter(f"a URL is http://HOST:PORT or https://HOST, unlike {url[:100]!r}")
    return value


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # a port that is not a number, or brackets that do not match
        return False


def _sorted(_context: click.Context, _option: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))


language = click.option(
    "--language",
    "languages",
    multiple=True,
    type=click.Choice(["python", "cpp"]),
    callback=_sorted,
    help="A language that answers may be written in; the fence around a program says which one it is. Problems whose "
    "tests call a function, or are Python code, take only Python. Can be given several times.  [default: python]",
)


class SupportsLeave(Protocol):
    def leave(self) -> None:
        """End soon, from any thread."""


@contextmanager
def leave_on_signal(worker: SupportsLeave) -> Iterator[None]:
    """Leave at the first SIGINT or SIGTERM. A second one ends the process at once."""

    def leave(number: int, frame: FrameType | None) -> None:
        for each, handler in before.items():
            signal.signal(each, handler)
        # In another thread, because the signal may have come in the midst of a wait for the lock that this takes.
        threading.Thread(target=worker.leave, name="leave").start()

    before = {number: signal.signal(number, leave) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


Command = Callable[..., Any]

_NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})
_CONFIG = click.argument("config", required=False, type=click.Path(path_type=Path))
_PRESET = click.option(
    "--preset",
    metavar="NAME",
    help="Published recipe whose values hold where CONFIG gives none, such as deepcoder-16k. With --model and --data, "
    "no CONFIG is needed.  [default: the preset that CONFIG names, if any]",
)
_MODEL = click.option(
    "--model", metavar="MODEL", help="Folder of the model, or its name on the Hub.  [default: model.path of CONFIG]"
)
_DATA = click.option(
    "--data",
    "dataset",
    metavar="DATASET",
    help="Folder of the dataset, its name on the Hub, or a file of prompts.  [default: data.dataset of CONFIG]",
)
_SET = click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="SECTION.KEY=VALUE",
    help="Replace a value of the configuration. Can be given several times.",
)


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """The parts that the configuration of a run is read from; None for those that were not given.

    path     the file CONFIG
    changes  values of --set
    """

    path: Path | None
    preset: str | None
    model: str | None
    dataset: str | None
    changes: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the file, or of the preset if there is no file."""
        return self.path.stem if self.path else str(self.preset)

    def read(
        self,
        changes: Sequence[str] = (),
        *,
        prompt: Mapping[str, Any] = _NO_OPTIONS,
        engine: Mapping[str, Any] = _NO_OPTIONS,
    ) -> "Config":
        """Return the configuration. Raises ConfigError.

        changes  values that other options stand for; those of --set replace them
        prompt   values of the section [prompt]
        engine   values of the section [engine]
        """
        from train.config import read_config

        return read_config(
            self.path,
            (*changes, *self.changes),
            preset=self.preset,
            model=self.model,
            dataset=self.dataset,
            prompt=prompt,
            engine=engine,
        )


def config_options(command: Command) -> Command:
    """Give a command the argument CONFIG and its options; its parameter `config` is a ConfigSource."""

    @_CONFIG
    @_PRESET
    @_MODEL
    @_DATA
    @_SET
    @wraps(command)
    def with_config(
        *arguments: Any,
        config: Path | None,
        preset: str | None,
        model: str | None,
        dataset: str | None,
        changes: tuple[str, ...],
        **others: Any,
    ) -> Any:
        if config is None and preset is None:
            example = "--preset deepcoder-16k --model MODEL --data DATASET"
            raise click.UsageError(
                f"there is no configuration. Give CONFIG, the path of a TOML file, or type: "
                f"{click.get_current_context().command_path} {example}"
            )
        return command(*arguments, config=ConfigSource(config, preset, model, dataset, changes), **others)

    return with_config


class CommandWithConfigKeys(click.Command):
    """A command that lists the keys of the configuration, with their defaults and meanings, at the end of its help."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from curate.recipes.toml_writer import toml_value
        from train.config.describe import describe_sections

        super().format_epilog(ctx, formatter)
        for section in describe_sections():
            with formatter.section(section.heading):
                formatter.write_dl(
                    [
                        (key.name if key.required else f"{key.name} = {toml_value(key.default)}", key.help)
                        for key in section.keys
                    ]
                )


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


def _price(name: str, of: str) -> Callable[[Command], Command]:
    return click.option(
        name,
        type=FiniteRange(0),
        metavar="AMOUNT",
        help=f"Price of a million tokens of {of}, in any currency.  [default: the cost is not computed]",
    )


def price_options(command: Command) -> Command:
    """Give a command --price-prompt and --price-answer; its parameter `prices` is Prices, None without both.

    A price that is not given beside the other one is 0.
    """

    @_price("--price-prompt", "prompts")
    @_price("--price-answer", "answers")
    @wraps(command)
    def with_prices(*arguments: Any, price_prompt: float | None, price_answer: float | None, **others: Any) -> Any:
        from train.evaluation.results.tables import Prices

        known = price_prompt is not None or price_answer is not None
        return command(*arguments, prices=Prices(price_prompt or 0.0, price_answer or 0.0) if known else None, **others)

    return with_prices


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
