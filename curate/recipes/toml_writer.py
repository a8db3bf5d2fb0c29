"""A writer of TOML, which the standard library only reads."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(table: Mapping[str, Any]) -> str:
    """Format a table of strings, numbers, booleans, lists and tables as TOML."""
    return "\n".join(_format_lines(table, ())).strip("\n") + "\n"


def _format_lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of a table: its values, then its subtables. path: keys of the table, from the root"""
    tables = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    lists = {key: value for key, value in table.items() if key not in tables and _is_list_of_tables(value)}
    yield from (
        f"{_format_key(key)} = {format_toml_value(v)}"
        for key, v in table.items()
        if key not in tables and key not in lists
    )
    for key, value in table.items():
        heading = ".".join(map(_format_key, (*path, key)))
        if key in tables:
            yield from ("", f"[{heading}]", *_format_lines(value, (*path, key)))
        elif key in lists:
            for item in value:
                yield from ("", f"[[{heading}]]", *_format_lines(item, (*path, key)))


def _is_list_of_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) for item in value)


def _format_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _format_text(key)


def format_toml_value(value: Any) -> str:
    """Format a value as TOML on one line, without keys whose value is None, because TOML has no null.

    Raises TypeError for a type that TOML lacks.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _format_text(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(format_toml_value, value))}]"
    if isinstance(value, Mapping):
        items = ", ".join(
            f"{_format_key(key)} = {format_toml_value(item)}" for key, item in value.items() if item is not None
        )
        return f"{{{items}}}"
    raise TypeError(f"TOML has no {type(value).__name__}")


def _format_text(text: str) -> str:
    # JSON and TOML escape the same characters, except DEL and lone surrogates.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
