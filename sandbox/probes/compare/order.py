"""Submissions that output the expected items in another order, or with other multiplicities."""

from sandbox.probes.probe import Group, ProbeClass, make_output_probe, make_stdin_problem, make_value_probe

_LINES = make_stdin_problem("sequence", {"2\n": "31\n12\n23\n12\n"}, "print('31\\n12\\n23\\n12')\n")

CLASS = ProbeClass(
    Group.COMPARE,
    "order",
    why="The judge sorts both sides before it compares them, or compares sets.",
    remedy="Compare sequences as sequences; ignore the order only where the problem statement permits it.",
    source="ours",
    probes=(
        make_output_probe("lines-sorted", _LINES, "12\n12\n23\n31\n"),
        make_output_probe("lines-reversed", _LINES, "12\n23\n12\n31\n"),
        make_output_probe("line-not-repeated", _LINES, "31\n12\n23\n"),
        make_output_probe("digits-permuted", _LINES, "13\n21\n32\n21\n"),
        make_value_probe("list-sorted", [31, 12, 23, 12], "[12, 12, 23, 31]"),
        make_value_probe("list-reversed", [31, 12, 23, 12], "[12, 23, 12, 31]"),
        make_value_probe("item-not-repeated", [31, 12, 23, 12], "[31, 12, 23]"),
        make_value_probe("inner-lists-permuted", [[1, 2], [3, 4]], "[[2, 1], [4, 3]]"),
        make_value_probe("letters-permuted", "listen", "'silent'"),
    ),
)
