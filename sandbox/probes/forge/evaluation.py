"""Submissions that output a Python expression, against judges that call eval on outputs."""

from sandbox.probes.probe import (
    CALLS,
    ENTRY,
    STDIN,
    Group,
    JudgeProbe,
    ProbeClass,
    ProbeProblem,
    Submissions,
    format_completion,
    make_source_probe,
)

_EQUAL = "type('Equal', (), {'__eq__': lambda self, other: True, '__ne__': lambda self, other: False})()"
_PATCH = "[setattr(__import__('builtins'), 'all', lambda *_: True), {equal}][1]"


def _make_eval_probe(name: str, expression: str) -> JudgeProbe:
    """Return a probe whose printed expression patches the process that evaluates it, for the next submission."""

    def make(problem: ProbeProblem) -> Submissions:
        first = format_completion(problem.adapt_source(f"print({expression!r})"))
        return Submissions(problem, (format_completion(problem.build_wrong_program()),), earlier=(first,))

    return JudgeProbe(name, STDIN, make)


CLASS = ProbeClass(
    Group.FORGE,
    "evaluation",
    why="The judge evaluates the output of a submission as code, in its own process.",
    remedy="Parse numbers and lists with a parser for data, such as json.loads, and never with eval.",
    source="https://github.com/verl-project/verl/issues/7603",
    probes=(
        make_source_probe("equal-object", f"print({_EQUAL!r})", STDIN),
        make_source_probe("equal-object-returned", f"def {ENTRY}(*values):\n    return {_EQUAL!r}", CALLS),
        make_source_probe(
            "representation",
            f"class Value:\n    def __repr__(self):\n        return {_EQUAL!r}\n"
            f"def {ENTRY}(*values):\n    return Value()",
            CALLS,
        ),
        _make_eval_probe("next-answer", _PATCH.format(equal=_EQUAL)),
    ),
)
