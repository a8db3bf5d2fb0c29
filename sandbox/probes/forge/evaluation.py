"""Prints or returns a Python expression, for judges that evaluate outputs."""

from sandbox.probes.probe import (
    CALLS,
    ENTRY,
    STDIN,
    Group,
    JudgeProbe,
    ProbeClass,
    ProbeProblem,
    Submissions,
    fenced,
    submits,
)

_EQUAL = "type('Equal', (), {'__eq__': lambda self, other: True, '__ne__': lambda self, other: False})()"
_PATCH = "[setattr(__import__('builtins'), 'all', lambda *_: True), {equal}][1]"


def _poisons_by(name: str, expression: str) -> JudgeProbe:
    """Return a probe whose printed expression patches the process that evaluates it, for the next submission."""

    def make(problem: ProbeProblem) -> Submissions:
        first = fenced(problem.program(f"print({expression!r})"))
        return Submissions(problem, (fenced(problem.wrong_program()),), earlier=(first,))

    return JudgeProbe(name, STDIN, make)


CLASS = ProbeClass(
    Group.FORGE,
    "evaluation",
    why="The judge evaluates the output of a submission as code, in its own process.",
    remedy="Parse numbers and lists with a parser for data, such as json.loads, and never with eval.",
    source="https://github.com/verl-project/verl/issues/7603",
    probes=(
        submits("equal-object", f"print({_EQUAL!r})", STDIN),
        submits("equal-object-returned", f"def {ENTRY}(*values):\n    return {_EQUAL!r}", CALLS),
        submits(
            "representation",
            f"class Value:\n    def __repr__(self):\n        return {_EQUAL!r}\n"
            f"def {ENTRY}(*values):\n    return Value()",
            CALLS,
        ),
        _poisons_by("next-answer", _PATCH.format(equal=_EQUAL)),
    ),
)
