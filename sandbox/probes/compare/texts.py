"""Prints or returns text that differs in case, whitespace or punctuation, or that matches as a pattern."""

from sandbox.probes.probe import Group, ProbeClass, prints, returns, stdin_problem

_WORDS = stdin_problem("spelling", {"2\n": "Abc dEf\nGh 1 2\n"}, "print('Abc dEf\\nGh 1 2')\n")
_VERDICT = stdin_problem("decision", {"2\n": "YES\n"}, "print('YES')\n")
_FORMULA = stdin_problem("formula", {"2\n": "x.y+\n"}, "print('x.y+')\n")
_LINES = "comparison by tokens, which many judges use, does not distinguish kinds of whitespace"

CLASS = ProbeClass(
    Group.COMPARE,
    "texts",
    why="The judge normalizes case, whitespace or punctuation before it compares, or treats one text as a pattern.",
    remedy="Compare the characters of each token exactly.",
    source="ours",
    probes=(
        prints("lower-case", _WORDS, "abc def\ngh 1 2\n"),
        prints("blanks-removed", _WORDS, "AbcdEf\nGh12\n"),
        prints("blanks-added", _WORDS, "A b c d E f\nG h 1 2\n"),
        prints("quoted", _WORDS, "'Abc' 'dEf'\n'Gh' 1 2\n"),
        prints("punctuated", _WORDS, "Abc, dEf.\nGh; 1, 2!\n"),
        prints("accented", _WORDS, "\u00c0bc dEf\nGh 1 2\n"),
        prints("digits-dropped", _WORDS, "Abc dEf\nGh\n"),
        prints("one-letter-off", _WORDS, "Abc dEg\nGh 1 2\n"),
        prints("zero-width", _WORDS, "A\u200bbc dEf\nGh 1 2\n"),
        prints("fits-the-pattern", _FORMULA, "xzyyyy\n"),
        prints("pattern", _WORDS, "(?s).*\n"),
        prints("glob", _WORDS, "*\n"),
        returns("lower-case-returned", "AbC", "'abc'"),
        returns("blanks-returned", "ab c", "'a bc'"),
        returns("one-letter-off-returned", "answer", "'answar'"),
        prints("yes-in-lower-case", _VERDICT, "yes\n", leniency="testlib's checkers for YES and NO ignore the case"),
        prints("lines-joined", _WORDS, "Abc dEf Gh 1 2\n", leniency=_LINES),
        prints("blank-line-between", _WORDS, "Abc dEf\n\nGh 1 2\n", leniency=_LINES),
        prints("tabs", _WORDS, "Abc\tdEf\nGh\t1  2\n", leniency=_LINES),
    ),
)
