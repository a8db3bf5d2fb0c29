import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pytest

from curate.json_records import from_json, json_key, omit_if_default, to_json


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True, slots=True)
class Leaf:
    name: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Tree:
    leaves: tuple[Leaf, ...]
    size: tuple[int, str]
    counts: Mapping[str, int]
    colour: Colour | None
    anything: Any = None
    note: str | None = omit_if_default(None)


TREE = Tree((Leaf("a"), Leaf("b", 2.5)), (3, "m"), {"x": 1}, Colour.RED, {"free": [1]}, "old")


def test_a_record_comes_back_from_json_as_it_was():
    assert from_json(Tree, json.loads(json.dumps(to_json(TREE)))) == TREE


def test_fields_are_written_in_order_and_omitted_where_they_have_their_defaults():
    bare = Tree((), (0, ""), {}, None)
    assert list(to_json(bare)) == ["leaves", "size", "counts", "colour", "anything"]
    assert list(to_json(TREE))[-1] == "note"


def test_a_field_may_have_another_key_in_the_json():
    @dataclass(frozen=True)
    class Renamed:
        n_executed: int = field(default=0, metadata=json_key("n_asked"))

    assert to_json(Renamed(3)) == {"n_asked": 3}
    assert from_json(Renamed, {"n_asked": 3}) == Renamed(3)
    assert from_json(Renamed, {}) == Renamed(0)
    with pytest.raises(ValueError, match="Renamed.n_asked: expected int"):
        from_json(Renamed, {"n_asked": "3"})


def test_missing_fields_take_their_defaults_and_whole_numbers_are_floats_where_floats_are_wanted():
    assert from_json(Leaf, {"name": "a"}) == Leaf("a")
    assert isinstance(from_json(Leaf, {"name": "a", "weight": 2}).weight, float)


def test_unknown_fields_are_an_error_unless_they_are_to_be_ignored():
    data = {"name": "a", "later": 1}
    with pytest.raises(ValueError, match="Leaf: unknown field later"):
        from_json(Leaf, data)
    assert from_json(Leaf, data, ignore_unknown=True) == Leaf("a")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"leaves": [{}]}, r"Tree.leaves\[0\]: the field name is missing", id="missing field"),
        pytest.param({"leaves": {}}, "Tree.leaves: expected list, not dict", id="no list"),
        pytest.param({"size": [1]}, "Tree.size: expected 2 values, not 1", id="too few"),
        pytest.param({"size": [True, "m"]}, r"Tree.size\[0\]: expected int, not bool", id="a boolean is not a number"),
        pytest.param({"counts": {"x": "1"}}, "Tree.counts.x: expected int, not str", id="value of a mapping"),
        pytest.param({"colour": "blue"}, "Tree.colour: 'blue' is not a valid Colour", id="no member"),
    ],
)
def test_data_of_another_shape_is_an_error_that_names_the_field(change, message):
    with pytest.raises(ValueError, match=message):
        from_json(Tree, to_json(TREE) | change)
