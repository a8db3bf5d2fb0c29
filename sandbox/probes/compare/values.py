"""Returns a value whose type or shape differs from the expected one."""

from sandbox.probes.probe import Group, ProbeClass, returns

CLASS = ProbeClass(
    Group.COMPARE,
    "values",
    why="The judge compares str() or bool() of the values, or truncates both sequences to the shorter one.",
    remedy="Compare types, then lengths, then each item by the same rule.",
    source="ours",
    probes=(
        returns("empty-list", [1, 2, 3], "[]"),
        returns("shorter-list", [1, 2, 3], "[1, 2]"),
        returns("longer-list", [1, 2, 3], "[1, 2, 3, 4]"),
        returns("first-item-right", [1, 2, 3], "[1, 0, 0]"),
        returns("last-item-right", [1, 2, 3], "[0, 0, 3]"),
        returns("inner-list-shorter", [[1, 2], [3, 4]], "[[1], [3]]"),
        returns("text-of-the-value", [1, 2, 3], "'[1, 2, 3]'"),
        returns("text-of-an-integer", 57, "'57'"),
        returns("in-a-list", 57, "[57]"),
        returns("none", [1, 2, 3], "None"),
        returns("nothing-for-text", "answer", "''"),
        returns("true", [1, 2, 3], "True"),
        returns("length", [1, 2, 3], "3"),
        returns("missing-key", {"a": 1, "b": 2}, "{'a': 1}"),
        returns("more-keys", {"a": 1}, "{'a': 1, 'b': 2}"),
        returns("keys-only", {"a": 1, "b": 2}, "{'a': 0, 'b': 0}"),
        returns("keys-as-list", {"a": 1, "b": 2}, "['a', 'b']"),
        returns("empty-dictionary", {"a": 1}, "{}"),
        returns("none-for-empty", [], "None"),
        returns("none-for-false", False, "None"),
        returns("prefix-of-text", "answer", "'ans'"),
        returns("text-around", "answer", "'the answer is'"),
        returns("another-value-of-the-type", 57, "58"),
        returns("tuple", [1, 2, 3], "(1, 2, 3)", leniency="LiveCodeBench turns tuples into lists"),
    ),
)
