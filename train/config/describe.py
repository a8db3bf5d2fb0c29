"""Descriptions of all configuration keys, read from the source of sections.py, and a commented template."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from itertools import takewhile
from typing import Any, Literal, get_args, get_origin, get_type_hints

from curate.recipes.toml_writer import format_toml_value
from train.config.read import as_table, read_preset, read_preset_header
from train.config.sections import Config

_WIDTH = 120  # maximum width of a template line


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """A key of a section.

    kind      type of the value, as text
    default   plain value, with "none" for None; None if required
    meaning   comment on the key's line or above it
    choices   allowed texts; empty: any
    """

    name: str
    kind: str
    required: bool
    default: Any
    meaning: str
    choices: tuple[str, ...] = ()

    @property
    def comment(self) -> str:
        """Return the meaning, and the choices unless the meaning explains them all."""
        if all(f'"{choice}"' in self.meaning for choice in self.choices):
            return self.meaning
        choices = f"{'any' if self.kind.startswith('list') else 'one'} of {', '.join(self.choices)}"
        return f"{self.meaning}; {choices}" if self.meaning else choices

    @property
    def help(self) -> str:
        """Return the comment as a sentence, with [required] for a required key."""
        sentence = f"{self.comment[:1].upper()}{self.comment[1:].removesuffix('.')}." if self.comment else ""
        return f"{sentence}  [required]" if self.required else sentence

    def format_lines(self, values: Mapping[str, Any]) -> Iterator[str]:
        """Yield the template lines of this key: its value, with the comment on the same line or above it.

        values: the section's non-default values
        """
        comment = self.comment
        if self.required and self.name not in values:
            line, comment = f'# {self.name} = ""', f"required: {comment}"
        else:
            line = f"{self.name} = {format_toml_value(values.get(self.name, self.default))}"
        if not comment or len(line) + len(comment) + 4 <= _WIDTH:
            yield f"{line}  # {comment}" if comment else line
        else:
            yield from textwrap.wrap(comment, _WIDTH, initial_indent="# ", subsequent_indent="# ")
            yield line


@dataclass(frozen=True, slots=True)
class ConfigSection:
    """A section of the configuration: a table, or an array of tables [[name]] if `repeated`."""

    name: str
    repeated: bool
    about: str
    keys: tuple[ConfigKey, ...]

    @property
    def heading(self) -> str:
        return f"[[{self.name}]]" if self.repeated else f"[{self.name}]"


def describe_sections() -> Iterator[ConfigSection]:
    for name, section in get_type_hints(Config).items():
        repeated = get_origin(section) is tuple
        kind: Any = get_args(section)[0] if repeated else section
        types, comments = get_type_hints(kind), dict(_read_comments(kind))
        about = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0]
        if about.startswith(f"{kind.__name__}("):  # the docstring that dataclass generates
            about = ""
        keys = []
        for field in fields(kind):
            required = field.default is MISSING and field.default_factory is MISSING
            value = field.default_factory() if field.default_factory is not MISSING else field.default
            default = None if required else "none" if value is None else as_table(value)
            hint, meaning = types[field.name], comments.get(field.name, "")
            keys.append(ConfigKey(field.name, _describe_type(hint), required, default, meaning, _list_choices(hint)))
        yield ConfigSection(name, repeated, " ".join(about.split()), tuple(keys))


def _describe_type(hint: Any) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is tuple:
        return f"list of {' and '.join(dict.fromkeys(_describe_type(kind) for kind in inner if kind is not Ellipsis))}"
    if type(None) in inner:
        return f'{_describe_type(inner[0])} or "none"'
    if origin is Mapping or is_dataclass(hint):
        return "table"
    return {Literal: "text", str: "text", int: "integer", float: "number", bool: "true or false"}[origin or hint]


def _list_choices(hint: Any) -> tuple[str, ...]:
    if get_origin(hint) is tuple:
        return _list_choices(get_args(hint)[0])
    return get_args(hint) if get_origin(hint) is Literal else ()


def _read_comments(kind: type) -> Iterator[tuple[str, str]]:
    """Yield (field name, its comment) for each field: the lines above the field, then its trailing comment."""
    source = textwrap.dedent(inspect.getsource(kind))
    lines = source.splitlines()
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    for node in definition.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            above = takewhile(lambda line: line.lstrip().startswith("#"), reversed(lines[: node.lineno - 1]))
            trailing = re.search(r"  # (.*)", lines[(node.end_lineno or node.lineno) - 1])
            comments = [line.lstrip("# ") for line in reversed(list(above))]
            yield node.target.id, " ".join([*comments, trailing[1]] if trailing else comments)


def format_template(preset: str | None = None) -> Iterator[str]:
    """Yield the lines of a configuration file with all keys and comments, required keys commented out.

    preset: name of the preset that supplies the values; None: the defaults

    Raises ConfigError for an unknown preset.
    """
    table = {} if preset is None else read_preset(preset)
    source = "their defaults" if preset is None else f"the values of the preset {preset}"
    yield f"# All keys of curate train with {source}."
    if preset is not None:
        yield from read_preset_header(preset)
    for section in describe_sections():
        values = table.get(section.name, {})
        for values_of_section in values if isinstance(values, list) else [values]:
            yield from ("", section.heading)
            for key in section.keys:
                yield from key.format_lines(values_of_section)
