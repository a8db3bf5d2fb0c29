"""Submissions that print a part of the expected output, or additional text."""

from sandbox.probes.probe import Group, ProbeClass, make_output_probe, make_stdin_problem

_PROBLEM = make_stdin_problem(
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
        make_output_probe("nothing", _PROBLEM, ""),
        make_output_probe("first-character", _PROBLEM, "1"),
        make_output_probe("first-token", _PROBLEM, "12\n"),
        make_output_probe("first-line", _PROBLEM, "12 7 30\n"),
        make_output_probe("last-line", _PROBLEM, "19 54 77\n"),
        make_output_probe("middle-line", _PROBLEM, "45 81 6\n"),
        make_output_probe("last-token", _PROBLEM, "77\n"),
        make_output_probe("without-the-last-line", _PROBLEM, "12 7 30\n45 81 6\n"),
        make_output_probe("without-the-last-token", _PROBLEM, "12 7 30\n45 81 6\n19 54\n"),
        make_output_probe("one-more-line", _PROBLEM, "12 7 30\n45 81 6\n19 54 77\n88 11 23\n"),
        make_output_probe("one-more-token", _PROBLEM, "12 7 30\n45 81 6\n19 54 77 23\n"),
        make_output_probe("text-before", _PROBLEM, "no answer\n12 7 30\n45 81 6\n19 54 77\n"),
        make_output_probe("text-around", _PROBLEM, "is it 12 7 30\n45 81 6\n19 54 77\nor not?\n"),
        make_output_probe("first-line-right", _PROBLEM, "12 7 30\n1 1 1\n1 1 1\n"),
        make_output_probe("last-line-right", _PROBLEM, "1 1 1\n1 1 1\n19 54 77\n"),
        make_output_probe("first-column-right", _PROBLEM, "12 1 1\n45 1 1\n19 1 1\n"),
        make_output_probe("shape-only", _PROBLEM, "1 1 1\n1 1 1\n1 1 1\n"),
        make_output_probe("most-tokens-right", _PROBLEM, "12 7 30\n45 82 6\n19 54 77\n"),
    ),
)
