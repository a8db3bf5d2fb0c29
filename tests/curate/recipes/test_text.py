import tomllib

import pytest

from curate.recipes.toml_writer import format_toml_value, to_toml

TABLES = [
    {},
    {"a": 1, "b": 0.5, "c": True, "d": "x", "e": [1, 2.0, "y", False], "f": -(10**18), "g": 1e-9},
    {"text": "quotes \" and \\ and ' and\nlines\ttabs \x00 \x7f \u00e9 \U0001f600"},
    {"a b": 1, "": 2, "x.y": {"é": 3}},
    {"table": {"inner": {"deep": 1}, "value": 2}, "list": [{"a": 1, "fields": {"id": "x"}}, {"a": 2}]},
    {"mixed": [{"a": 1}, 2], "empty": [], "nothing": {}, "inline": [[{"a": [1]}]]},
]


@pytest.mark.parametrize("table", TABLES, ids=range(len(TABLES)))
def test_what_is_written_is_what_tomllib_reads(table):
    assert tomllib.loads(to_toml(table)) == table


def test_a_value_is_written_on_one_line_without_keys_that_are_none():
    value = {"a b": 'q"uo\\te\n', "c": (1, 2.5e-7, True), "d": {"e": None, "f": "ü\x7f"}}
    (line,) = f"x = {format_toml_value(value)}".splitlines()
    assert tomllib.loads(line) == {"x": {**value, "c": [1, 2.5e-7, True], "d": {"f": "ü\x7f"}}}
