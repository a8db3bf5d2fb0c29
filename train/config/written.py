"""A configuration as the text of a TOML file."""

import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from train.config.describe import Key, Section, sections
from train.config.file import preset_header, preset_table

_WIDTH = 120


def toml_value(value: Any) -> str:
    """Return a plain value as TOML writes it."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{json.dumps(name)} = {toml_value(item)}" for name, item in value.items())
        return f"{{{inner}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else repr(value)


def explained(preset: str | None = None) -> Iterator[str]:
    """Yield the lines of a configuration file with all keys and their comments, which lacks the required keys only.

    preset: the name of the preset whose values it has; None: the defaults

    Raises ConfigError for an unknown preset.
    """
    table = {} if preset is None else preset_table(preset)
    if preset is None:
        yield "# All keys of curate train with their defaults."
    else:
        yield f"# All keys of curate train with the values of the preset {preset}."
        yield from preset_header(preset)
    for section in sections():
        values = table.get(section.name, {})
        for of_one in values if isinstance(values, list) else [values]:
            yield ""
            yield section.heading
            for key in section.keys:
                yield from _lines(section, key, of_one)


def _lines(section: Section, key: Key, values: Mapping[str, Any]) -> Iterator[str]:
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
