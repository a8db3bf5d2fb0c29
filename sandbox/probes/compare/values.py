"""Submissions that return a value of another type or shape than expected."""

from sandbox.probes.probe import Group, ProbeClass, make_value_probe

CLASS = ProbeClass(
    Group.COMPARE,
    "values",
    why="The judge compares str() or bool() of the values, or truncates both sequences to the shorter one.",
    remedy="Compare types, then lengths, then each item by the same rule.",
    source="ours",
    probes=(
        make_value_probe("empty-list", [1, 2, 3], "[]"),
        make_value_probe("shorter-list", [1, 2, 3], "[1, 2]"),
        make_value_probe("longer-list", [1, 2, 3], "[1, 2, 3, 4]"),
        make_value_probe("first-item-right", [1, 2, 3], "[1, 0, 0]"),
        make_value_probe("last-item-right", [1, 2, 3], "[0, 0, 3]"),
        make_value_probe("inner-list-shorter", [[1, 2], [3, 4]], "[[1], [3]]"),
        make_value_probe("text-of-the-value", [1, 2, 3], "'[1, 2, 3]'"),
        make_value_probe("text-of-an-integer", 57, "'57'"),
        make_value_probe("in-a-list", 57, "[57]"),
        make_value_probe("none", [1, 2, 3], "None"),
        make_value_probe("nothing-for-text", "answer", "''"),
        make_value_probe("true", [1, 2, 3], "True"),
        make_value_probe("length", [1, 2, 3], "3"),
        make_value_probe("missing-key", {"a": 1, "b": 2}, "{'a': 1}"),
        make_value_probe("more-keys", {"a": 1}, "{'a': 1, 'b': 2}"),
        make_value_probe("keys-only", {"a": 1, "b": 2}, "{'a': 0, 'b': 0}"),
        make_value_probe("keys-as-list", {"a": 1, "b": 2}, "['a', 'b']"),
        make_value_probe("empty-dictionary", {"a": 1}, "{}"),
        make_value_probe("none-for-empty", [], "None"),
        make_value_probe("none-for-false", False, "None"),
        make_value_probe("prefix-of-text", "answer", "'ans'"),
        make_value_probe("text-around", "answer", "'the answer is'"),
        make_value_probe("another-value-of-the-type", 57, "58"),
        make_value_probe("tuple", [1, 2, 3], "(1, 2, 3)", leniency="LiveCodeBench turns tuples into lists"),
    ),
)
