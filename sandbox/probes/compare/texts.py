"""Submissions that output text with another case, whitespace or punctuation, or text that matches as a pattern."""

from sandbox.probes.probe import Group, ProbeClass, make_output_probe, make_stdin_problem, make_value_probe

_WORDS = make_stdin_problem("spelling", {"2\n": "Abc dEf\nGh 1 2\n"}, "print('Abc dEf\\nGh 1 2')\n")
_VERDICT = make_stdin_problem("decision", {"2\n": "YES\n"}, "print('YES')\n")
_FORMULA = make_stdin_problem("formula", {"2\n": "x.y+\n"}, "print('x.y+')\n")
_LINES = "comparison by tokens, which many judges use, does not distinguish kinds of whitespace"

CLASS = ProbeClass(
    Group.COMPARE,
    "texts",
    why="The judge normalizes case, whitespace or punctuation before it compares, or treats one text as a pattern.",
    remedy="Compare the characters of each token exactly.",
    source="ours",
    probes=(
        make_output_probe("lower-case", _WORDS, "abc def\ngh 1 2\n"),
        make_output_probe("blanks-removed", _WORDS, "AbcdEf\nGh12\n"),
        make_output_probe("blanks-added", _WORDS, "A b c d E f\nG h 1 2\n"),
        make_output_probe("quoted", _WORDS, "'Abc' 'dEf'\n'Gh' 1 2\n"),
        make_output_probe("punctuated", _WORDS, "Abc, dEf.\nGh; 1, 2!\n"),
        make_output_probe("accented", _WORDS, "\u00c0bc dEf\nGh 1 2\n"),
        make_output_probe("digits-dropped", _WORDS, "Abc dEf\nGh\n"),
        make_output_probe("one-letter-off", _WORDS, "Abc dEg\nGh 1 2\n"),
        make_output_probe("zero-width", _WORDS, "A\u200bbc dEf\nGh 1 2\n"),
        make_output_probe("fits-the-pattern", _FORMULA, "xzyyyy\n"),
        make_output_probe("pattern", _WORDS, "(?s).*\n"),
        make_output_probe("glob", _WORDS, "*\n"),
        make_value_probe("lower-case-returned", "AbC", "'abc'"),
        make_value_probe("blanks-returned", "ab c", "'a bc'"),
        make_value_probe("one-letter-off-returned", "answer", "'answar'"),
        make_output_probe(
            "yes-in-lower-case", _VERDICT, "yes\n", leniency="testlib's checkers for YES and NO ignore the case"
        ),
        make_output_probe("lines-joined", _WORDS, "Abc dEf Gh 1 2\n", leniency=_LINES),
        make_output_probe("blank-line-between", _WORDS, "Abc dEf\n\nGh 1 2\n", leniency=_LINES),
        make_output_probe("tabs", _WORDS, "Abc\tdEf\nGh\t1  2\n", leniency=_LINES),
    ),
)
