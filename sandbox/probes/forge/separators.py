"""Submissions that print a report after each character at which str.splitlines splits."""

from sandbox.probes.probe import (
    ALL_CONVENTIONS,
    ENTRY,
    Group,
    JudgeProbe,
    ProbeClass,
    ProbeProblem,
    Submissions,
    format_completion,
)  # fmt: skip

_SEPARATORS = {
    "carriage-return": "\r", "vertical-tab": "\x0b", "form-feed": "\x0c", "file-separator": "\x1c",
    "group-separator": "\x1d", "record-separator": "\x1e", "next-line": "\x85", "line-separator": "\u2028",
    "paragraph-separator": "\u2029",
}  # fmt: skip
_WORDS = ("PASS", "PASSED", "OK", "True", "1", '{"passed": true}')


def _make_separator_probe(name: str, separator: str) -> JudgeProbe:
    text = "no answer" + "".join(separator + word for word in _WORDS)

    def make(problem: ProbeProblem) -> Submissions:
        source = f"import os\nos.write(1, {text.encode()!r})\n"
        if problem.entry:
            source += f"def {ENTRY}(*values):\n    return {text!r}\n"
        return Submissions(problem, (format_completion(problem.adapt_source(source)),))

    return JudgeProbe(name, ALL_CONVENTIONS, make)


CLASS = ProbeClass(
    Group.FORGE,
    "separators",
    why="The judge writes the output into a report of lines and parses it with str.splitlines.",
    remedy="Store outputs as length-prefixed bytes or JSON, and never find verdicts by splitting text.",
    source="ours",
    probes=tuple(_make_separator_probe(name, separator) for name, separator in _SEPARATORS.items()),
)
