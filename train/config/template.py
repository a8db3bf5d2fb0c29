"""A configuration file in which every key is explained."""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from curate.recipes.toml_writer import toml_value
from train.config.file import preset_header, preset_table
from train.config.key_descriptions import ConfigKey, describe_sections

_WIDTH = 120


def template_lines(preset: str | None = None) -> Iterator[str]:
    """Yield the lines of a configuration file with all keys and their comments. Required keys are commented out.

    preset: name of the preset whose values the file has; None: the defaults

    Raises ConfigError for an unknown preset.
    """
    table = {} if preset is None else preset_table(preset)
    if preset is None:
        yield "# All keys of curate train with their defaults."
    else:
        yield f"# All keys of curate train with the values of the preset {preset}."
        yield from preset_header(preset)
    for section in describe_sections():
        values = table.get(section.name, {})
        for values_of_section in values if isinstance(values, list) else [values]:
            yield ""
            yield section.heading
            for key in section.keys:
                yield from _lines(key, values_of_section)


def _lines(key: ConfigKey, values: Mapping[str, Any]) -> Iterator[str]:
    """Yield a key with its value, its comment beside it or, if the line would be too long, above it."""
    comment = key.comment
    if key.required and key.name not in values:
        line, comment = f'# {key.name} = ""', f"required: {comment}"
    else:
        line = f"{key.name} = {toml_value(values.get(key.name, key.default))}"
    if not comment or len(line) + len(comment) + 4 <= _WIDTH:
        yield f"{line}  # {comment}" if comment else line
    else:
        yield from textwrap.wrap(comment, _WIDTH, initial_indent="# ", subsequent_indent="# ")
        yield line
