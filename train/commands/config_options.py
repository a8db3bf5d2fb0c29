"""The options that name the configuration of a run. All commands that read one have them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from train.config import Config

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
