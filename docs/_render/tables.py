"""Reference pages in Markdown, rendered from the code that they describe.

A page asks for one with a comment on a line of its own, for example `<!-- render: columns -->`. The names are the keys
of PAGES.
"""

import inspect
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from train.config.describe import ConfigSection

ROOT = Path(__file__).parents[2]


def commands() -> str:
    """Return a section for each command of `curate`: its help, its usage and its options."""
    from curate.commands.main import list_command_modules, load_command

    return "\n\n".join(_command(name, load_command(name)) for name in sorted(list_command_modules()))


def columns() -> str:
    """Return the table of the columns of a dataset."""
    from curate.problem import COLUMNS, MEASURED_COLUMNS, REWARD_COLUMNS

    rows = (
        (
            f"`{name}`",
            f"`{kind}`",
            meaning,
            "yes" if name in MEASURED_COLUMNS else "",
            "yes" if name in REWARD_COLUMNS else "",
        )
        for name, (kind, meaning) in COLUMNS.items()
    )
    return _table(("column", "type", "meaning", "measured", "reward"), rows)


def evidence() -> str:
    """Return the table of the columns of the config `evidence`."""
    from curate.dataset.evidence import EVIDENCE_COLUMNS

    rows = ((f"`{name}`", f"`{kind}`", meaning) for name, (kind, meaning) in EVIDENCE_COLUMNS.items())
    return _table(("column", "type", "meaning"), rows)


def metrics() -> str:
    """Return the table of the metrics that a training run logs."""
    from train.run.step_metrics import METRIC_DESCRIPTIONS

    return _table(("metric", "meaning"), ((f"`{name}`", meaning) for name, meaning in METRIC_DESCRIPTIONS.items()))


def configuration() -> str:
    """Return a section for each section of a training run's configuration, with its keys and their comments."""
    from train.config.describe import describe_sections

    return "\n\n".join(map(_section, describe_sections()))


def presets() -> str:
    """Return the table of the keys in which presets differ from the defaults, a column for each preset."""
    from train.config.describe import describe_sections

    paths = sorted((ROOT / "train" / "config" / "presets").glob("*.toml"))
    tables = {path.stem: dict(_flat(tomllib.loads(path.read_text()))) for path in paths}
    defaults = {f"{section.name}.{key.name}": key.default for section in describe_sections() for key in section.keys}
    given = {key for table in tables.values() for key in table}
    stages = sorted(key for key in given if key.startswith("stages."))
    keys = [*(key for key in defaults if key in given), *stages]
    rows = ((f"`{key}`", *(_code(table.get(key, defaults.get(key, ""))) for table in tables.values())) for key in keys)
    return _table(("key", *tables), rows)


def contributing() -> str:
    """Return CONTRIBUTING.md without its title."""
    return (ROOT / "CONTRIBUTING.md").read_text().partition("\n")[2]


PAGES: dict[str, Callable[[], str]] = {
    "commands": commands,
    "columns": columns,
    "evidence": evidence,
    "metrics": metrics,
    "configuration": configuration,
    "presets": presets,
    "contributing": contributing,
}


def data_cards() -> dict[str, str]:
    """Return the card of each source, by its name."""
    return {path.stem: path.read_text() for path in sorted((ROOT / "data_cards").glob("*.md"))}


def _command(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=f"curate {name}")
    usage = " ".join([f"curate {name}", *command.collect_usage_pieces(context)])
    help_text = inspect.cleandoc(command.help or "")
    records = (param.get_help_record(context) for param in command.get_params(context))
    options = _table(
        ("option", "meaning"), ((f"`{option}`", _escaped(meaning)) for option, meaning in filter(None, records))
    )
    parts = [f"## curate {name}", help_text, f"```text\n{usage}\n```", options]
    if isinstance(command, click.Group):
        parts += (f"#{_command(f'{name} {inner}', one)}" for inner, one in sorted(command.commands.items()))
    return "\n\n".join(parts)


def _section(section: "ConfigSection") -> str:
    from curate.recipes.toml_writer import format_toml_value

    rows = (
        (
            f"`{key.name}`",
            " or ".join(f"`{choice}`" for choice in key.choices) or key.kind,
            "required" if key.required else f"`{format_toml_value(key.default)}`",
            _escaped(key.meaning),
        )
        for key in section.keys
    )
    about = [section.about] if section.about else []
    return "\n\n".join([f"## `{section.heading}`", *about, _table(("key", "type", "default", "meaning"), rows)])


def _flat(table: dict[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for number, inner in enumerate(value):
                yield from _flat(inner, f"{prefix}{key}.{number}.")
        else:
            yield prefix + key, value


def _code(value: object) -> str:
    if value == "":
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _escaped(text: str) -> str:
    """Return plain text as Markdown that shows it: a default such as [default: 8; x>=1] is not a link."""
    return re.sub(r"([\[\]*])", r"\\\1", re.sub(r"\s+", " ", text).replace("<", "&lt;"))


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
