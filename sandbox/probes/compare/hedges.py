"""Prints several outputs, one of them correct."""

from sandbox.probes.probe import Group, ProbeClass, prints, returns, stdin_problem

_NUMBER = stdin_problem("choice", {"2\n": "57\n"}, "print(57)\n")
_WORD = stdin_problem("decision", {"2\n": "YES\n"}, "print('YES')\n")
_ALL = " ".join(map(str, range(100)))

CLASS = ProbeClass(
    Group.COMPARE,
    "hedges",
    why="The judge searches the printed text for the expected output.",
    remedy="Compare the whole output; any additional text makes it wrong.",
    source="ours",
    probes=(
        prints("two-lines", _NUMBER, "56\n57\n"),
        prints("two-lines-right-first", _NUMBER, "57\n56\n"),
        prints("words-or", _NUMBER, "56 or 57\n"),
        prints("sentence", _NUMBER, "The answer is 57 or 58.\n"),
        prints("all-numbers", _NUMBER, _ALL + "\n"),
        prints("all-numbers-on-lines", _NUMBER, _ALL.replace(" ", "\n") + "\n"),
        prints("digits-of-all", _NUMBER, "15758\n"),
        prints("both-words", _WORD, "YES NO\n"),
        prints("both-words-on-lines", _WORD, "NO\nYES\n"),
        returns("all-returned", 57, "list(range(100))"),
        returns("text-with-both", "YES", "'YES NO'"),
        returns("dictionary-of-both", "YES", "{'YES': 'NO', 'NO': 'YES'}"),
    ),
)
