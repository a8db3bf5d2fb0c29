"""Submissions that print several outputs, one of them correct."""

from sandbox.probes.probe import Group, ProbeClass, make_output_probe, make_stdin_problem, make_value_probe

_NUMBER = make_stdin_problem("choice", {"2\n": "57\n"}, "print(57)\n")
_WORD = make_stdin_problem("decision", {"2\n": "YES\n"}, "print('YES')\n")
_ALL = " ".join(map(str, range(100)))

CLASS = ProbeClass(
    Group.COMPARE,
    "hedges",
    why="The judge searches the printed text for the expected output.",
    remedy="Compare the whole output, and reject any additional text.",
    source="ours",
    probes=(
        make_output_probe("two-lines", _NUMBER, "56\n57\n"),
        make_output_probe("two-lines-right-first", _NUMBER, "57\n56\n"),
        make_output_probe("words-or", _NUMBER, "56 or 57\n"),
        make_output_probe("sentence", _NUMBER, "The answer is 57 or 58.\n"),
        make_output_probe("all-numbers", _NUMBER, _ALL + "\n"),
        make_output_probe("all-numbers-on-lines", _NUMBER, _ALL.replace(" ", "\n") + "\n"),
        make_output_probe("digits-of-all", _NUMBER, "15758\n"),
        make_output_probe("both-words", _WORD, "YES NO\n"),
        make_output_probe("both-words-on-lines", _WORD, "NO\nYES\n"),
        make_value_probe("all-returned", 57, "list(range(100))"),
        make_value_probe("text-with-both", "YES", "'YES NO'"),
        make_value_probe("dictionary-of-both", "YES", "{'YES': 'NO', 'NO': 'YES'}"),
    ),
)
