"""Outputs the expected items in another order, or with other multiplicities."""

from sandbox.probes.probe import Group, ProbeClass, prints, returns, stdin_problem

_LINES = stdin_problem("sequence", {"2\n": "31\n12\n23\n12\n"}, "print('31\\n12\\n23\\n12')\n")

CLASS = ProbeClass(
    Group.COMPARE,
    "order",
    why="The judge sorts both sides before it compares them, or compares sets.",
    remedy="Compare sequences as sequences; ignore the order only where the problem statement permits it.",
    source="ours",
    probes=(
        prints("lines-sorted", _LINES, "12\n12\n23\n31\n"),
        prints("lines-reversed", _LINES, "12\n23\n12\n31\n"),
        prints("line-not-repeated", _LINES, "31\n12\n23\n"),
        prints("digits-permuted", _LINES, "13\n21\n32\n21\n"),
        returns("list-sorted", [31, 12, 23, 12], "[12, 12, 23, 31]"),
        returns("list-reversed", [31, 12, 23, 12], "[12, 23, 12, 31]"),
        returns("item-not-repeated", [31, 12, 23, 12], "[31, 12, 23]"),
        returns("inner-lists-permuted", [[1, 2], [3, 4]], "[[2, 1], [4, 3]]"),
        returns("letters-permuted", "listen", "'silent'"),
    ),
)
