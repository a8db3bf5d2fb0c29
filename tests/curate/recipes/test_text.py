import tomllib

import pytest

from curate.recipes.text import toml

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
    assert tomllib.loads(toml(table)) == table
