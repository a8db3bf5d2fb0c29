"""Prints a part of the expected output, or additional text."""

from sandbox.probes.probe import Group, ProbeClass, prints, stdin_problem

_PROBLEM = stdin_problem(
    "table",
    {"2\n": "12 7 30\n45 81 6\n19 54 77\n"},
    "print('12 7 30\\n45 81 6\\n19 54 77')\n",
)

CLASS = ProbeClass(
    Group.COMPARE,
    "parts",
    why="The judge checks only whether one text contains or begins with the other, or compares a single line.",
    remedy="Compare the whole output with the whole expected output, starting with their lengths.",
    source="ours",
    probes=(
        prints("nothing", _PROBLEM, ""),
        prints("first-character", _PROBLEM, "1"),
        prints("first-token", _PROBLEM, "12\n"),
        prints("first-line", _PROBLEM, "12 7 30\n"),
        prints("last-line", _PROBLEM, "19 54 77\n"),
        prints("middle-line", _PROBLEM, "45 81 6\n"),
        prints("last-token", _PROBLEM, "77\n"),
        prints("without-the-last-line", _PROBLEM, "12 7 30\n45 81 6\n"),
        prints("without-the-last-token", _PROBLEM, "12 7 30\n45 81 6\n19 54\n"),
        prints("one-more-line", _PROBLEM, "12 7 30\n45 81 6\n19 54 77\n88 11 23\n"),
        prints("one-more-token", _PROBLEM, "12 7 30\n45 81 6\n19 54 77 23\n"),
        prints("text-before", _PROBLEM, "no answer\n12 7 30\n45 81 6\n19 54 77\n"),
        prints("text-around", _PROBLEM, "is it 12 7 30\n45 81 6\n19 54 77\nor not?\n"),
        prints("first-line-right", _PROBLEM, "12 7 30\n1 1 1\n1 1 1\n"),
        prints("last-line-right", _PROBLEM, "1 1 1\n1 1 1\n19 54 77\n"),
        prints("first-column-right", _PROBLEM, "12 1 1\n45 1 1\n19 1 1\n"),
        prints("shape-only", _PROBLEM, "1 1 1\n1 1 1\n1 1 1\n"),
        prints("most-tokens-right", _PROBLEM, "12 7 30\n45 82 6\n19 54 77\n"),
    ),
)
