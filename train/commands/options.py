"""Options, tables and signal handling that several commands share.

A decorator such as `config_options` gives a command several options, whose values arrive as one parameter.
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
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import click

from curate.commands.options import parse_assignments
from sandbox.commands.console import report_user_errors
from sandbox.commands.table import TableColumn, TableRow, print_table
from train.engine_options import DEFAULT_REQUEST_OPTIONS, MAX_REQUEST_SECONDS, EngineOptions, RequestOptions
from train.errors import ConfigError
from train.gpu_cost import GpuPrice

if TYPE_CHECKING:
    from train.config import Config

Command = Callable[..., Any]
UrlValue = TypeVar("UrlValue", str, tuple[str, ...])


class FiniteRange(click.FloatRange):
    """A range of finite numbers. click.FloatRange would accept `nan`, which compares as inside every range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


def validate_urls(context: click.Context, option: click.Parameter, value: UrlValue) -> UrlValue:
    """Validate the URLs of an option, as a callback of click. Raises click.BadParameter for an invalid one."""
    for url in filter(None, (value,) if isinstance(value, str) else value):
        try:
            parts = urlsplit(url)
            is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # an invalid port, or unbalanced brackets
            is_url = False
        if not is_url:
            raise click.BadParameter(f"a URL is http://HOST:PORT or https://HOST, not {url[:100]!r}")
    return value


language = click.option(
    "--language",
    "languages",
    multiple=True,
    type=click.Choice(["python", "cpp"]),
    callback=lambda context, option, names: tuple(sorted(set(names))),
    help="Accepted language of programs; the fence around a program names its language. Problems whose tests call a "
    "function, or are Python code, accept only Python. Can be given several times.  [default: python]",
)
changed_option = click.option(
    "--changed", type=click.IntRange(min=0), default=10, show_default=True,
    help="Number of changed problems to show, the largest changes first.",
)  # fmt: skip


def sampling_options(otherwise: str = "") -> Callable[[Command], Command]:
    """Add --temperature, --top-p and --max-tokens to a command. otherwise: text after each default in their help."""
    options = {  # click shows the last option first
        "--max-tokens": (click.IntRange(min=1), "Maximum number of tokens in a completion", 16384),
        "--top-p": (FiniteRange(0, 1, min_open=True), "Probability mass of nucleus sampling", 0.95),
        "--temperature": (FiniteRange(0, 2), "Sampling temperature", 0.6),
    }

    def with_sampling(command: Command) -> Command:
        for name, (kind, meaning, default) in options.items():
            command = click.option(name, type=kind, help=f"{meaning}.  [default: {default}{otherwise}]")(command)
        return command

    return with_sampling


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """The sources of a run's configuration; None for omitted options.

    path     path of the file CONFIG
    changes  assignments of --set
    """

    path: Path | None
    preset: str | None
    model: str | None
    dataset: str | None
    changes: tuple[str, ...]

    @property
    def name(self) -> str:
        """Return the name of the file, or of the preset if there is no file."""
        return self.path.stem if self.path else str(self.preset)

    def read(
        self, changes: Sequence[str] = (), *, machine: Sequence[str] = (), **sections: Mapping[str, Any]
    ) -> "Config":
        """Read the configuration. Raises ConfigError.

        changes   assignments in the form of --set, whose own assignments override these
        machine   defaults for the machine, which CONFIG and all options override
        sections  values of the options of the sections prompt and engine
        """
        from train.config import read_config

        return read_config(
            self.path, (*changes, *self.changes), preset=self.preset, model=self.model, dataset=self.dataset,
            machine=machine, **sections,
        )  # fmt: skip


def config_options(command: Command) -> Command:
    """Add the argument CONFIG and its options to a command, whose parameter `config` is a ConfigSource."""

    @click.argument("config", required=False, type=click.Path(path_type=Path))
    @click.option(
        "--preset", metavar="NAME",
        help="Published recipe, such as deepcoder-16k, whose values apply where CONFIG sets none. With --model and "
        "--data, no CONFIG is needed.  [default: the preset that CONFIG names, if any]",
    )  # fmt: skip
    @click.option(
        "--model", metavar="MODEL", help="Folder of the model, or its name on the Hub.  [default: model.path of CONFIG]"
    )
    @click.option(
        "--data", "dataset", metavar="DATASET",
        help="Folder of the dataset, its name on the Hub, or a file of prompts.  [default: data.dataset of CONFIG]",
    )  # fmt: skip
    @click.option(
        "--set", "changes", multiple=True, metavar="SECTION.KEY=VALUE",
        help="Replace a value of the configuration. Can be given several times.",
    )  # fmt: skip
    @wraps(command)
    def with_config(
        config: Path | None, preset: str | None, model: str | None, dataset: str | None, changes: tuple[str, ...],
        **others: Any,
    ) -> Any:  # fmt: skip
        if config is None and preset is None:
            raise click.UsageError(
                "there is no configuration. Give CONFIG, the path of a TOML file, or type: "
                f"{click.get_current_context().command_path} --preset deepcoder-16k --model MODEL --data DATASET"
            )
        return command(config=ConfigSource(config, preset, model, dataset, changes), **others)

    return with_config


class CommandWithConfigKeys(click.Command):
    """A command whose help ends with the keys of the configuration, their defaults and meanings."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from curate.recipes.toml_writer import format_toml_value
        from train.config.describe import describe_sections

        super().format_epilog(ctx, formatter)
        for section in describe_sections():
            with formatter.section(section.heading):
                rows = ((key, "" if key.required else f" = {format_toml_value(key.default)}") for key in section.keys)
                formatter.write_dl([(key.name + default, key.help) for key, default in rows])


def engine_option(command: Command) -> Command:
    """Add the option --engine to a command, whose parameter `engine` is a table for EngineOptions.from_table.

    Unless OMP_WAIT_POLICY is set, sets it to passive, so torch's idle threads leave the CPUs to judged programs.
    """

    @click.option(
        "--engine", "engine_options", multiple=True, metavar="KEY=VALUE",
        help="Option of the engine: concurrency (concurrent requests to a server, or concurrent sequences in vLLM), "
        "tensor_parallel (GPUs), memory_share (share of each GPU's memory), max_model_len (tokens of prompt and "
        "completion), or any option of vLLM's EngineArgs, such as dtype=bfloat16. Can be given several times.",
    )  # fmt: skip
    @wraps(command)
    def with_engine(engine_options: tuple[str, ...], **others: Any) -> Any:
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # torch reads it when it is imported, later
        return command(engine=parse_assignments("--engine", engine_options), **others)

    return with_engine


def request_options(command: Command) -> Command:
    """Add --request and --request-timeout to a command, whose parameter `request` is a RequestOptions."""

    @click.option(
        "--request", "request_fields", multiple=True, metavar="KEY=JSON",
        help="Additional field of each request to a server, such as reasoning_effort=high. It overrides a standard "
        "field of this name; null omits the field: max_tokens=null. Can be given several times.",
    )  # fmt: skip
    @click.option(
        "--request-timeout", "request_seconds", type=FiniteRange(0, MAX_REQUEST_SECONDS, min_open=True),
        default=DEFAULT_REQUEST_OPTIONS.max_seconds, show_default=True, metavar="SECONDS",
        help="Time limit of each request to a server, after which the request is retried.",
    )  # fmt: skip
    @wraps(command)
    def with_request(request_fields: tuple[str, ...], request_seconds: float, **others: Any) -> Any:
        try:
            request = RequestOptions(parse_assignments("--request", request_fields), request_seconds)
        except ConfigError as error:
            raise click.UsageError(str(error)) from error
        return command(request=request, **others)

    return with_request


gpu_hour_option = click.option(
    "--price-gpu-hour", type=FiniteRange(0, min_open=True), metavar="AMOUNT",
    help="Price of a GPU for an hour, in any currency.  [default: the cost is not computed]",
)  # fmt: skip


def gpu_price_options(command: Command) -> Command:
    """Add --price-gpu-hour and --gpus to a command, whose parameter `gpu_price` is a GpuPrice, or None without a price.

    The command also needs the parameters `engine` (of engine_option) and `base_url`.
    """

    @gpu_hour_option
    @click.option(
        "--gpus", type=click.IntRange(1, 4096),
        help="Number of GPUs with this price.  [default: the GPUs of the engine in this process]",
    )  # fmt: skip
    @wraps(command)
    def with_price(price_gpu_hour: float | None, gpus: int | None, **others: Any) -> Any:
        if price_gpu_hour is None:
            if gpus is not None:
                raise click.UsageError("--gpus needs --price-gpu-hour, the price of a GPU. Give both, or omit --gpus")
            return command(gpu_price=None, **others)
        if gpus is None and others["base_url"] is not None:
            raise click.UsageError("--price-gpu-hour: the server's number of GPUs is unknown. Give --gpus N")
        with report_user_errors(ConfigError):
            n_gpus = gpus or EngineOptions.from_table(others["engine"]).n_gpus
        return command(gpu_price=GpuPrice(n_gpus, price_gpu_hour), **others)

    return with_price


def print_cells(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table with columns as wide as their longest cells. The first column is left-aligned."""
    widths = [max(map(len, column)) + 2 for column in zip(names, *rows, strict=True)]
    widths[0] -= 2
    columns = zip(names, widths, strict=True)
    print_table(
        [TableColumn(name, width, is_text=index == 0) for index, (name, width) in enumerate(columns)],
        [TableRow(list(row)) for row in rows],
    )


def print_changed_problems(before: str, after: str, problems: Sequence[tuple[str, str, str]], max_rows: int) -> None:
    """Print at most `max_rows` of the problems whose numbers of correct samples changed."""
    if problems and max_rows:
        rest = f", the {max_rows} with the largest change" if len(problems) > max_rows else ""
        click.echo(f"{len(problems)} problem{'s' if len(problems) > 1 else ''} changed{rest}:")
        print_cells(["", before, after], problems[:max_rows])


@contextmanager
def leave_on_signal(leave: Callable[[], None]) -> Iterator[None]:
    """Call `leave` at the first SIGINT or SIGTERM, so a worker can shut down. A second signal ends the process."""

    def handle(number: int, frame: FrameType | None) -> None:
        for each, handler in before.items():
            signal.signal(each, handler)
        # `leave` runs in another thread, because the interrupted code may hold the lock that it takes.
        threading.Thread(target=leave, name="leave").start()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def report_interruption(message: str) -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C, and print the message after either. Clusters send SIGTERM before SIGKILL."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with report_user_errors(interrupt_message=message):
            yield
    finally:
        signal.signal(signal.SIGTERM, before)
