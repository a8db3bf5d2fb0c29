"""Wrong submissions that share a weak cache key with an earlier, correct submission."""

from collections.abc import Callable

from sandbox.probes.probe import (
    ALL_CONVENTIONS,
    Group,
    JudgeProbe,
    ProbeClass,
    ProbeProblem,
    Submissions,
    format_completion,
)

_NOTES = "# This program was written with care, line by line.\n" * 200


def _make_pair_probe(name: str, pad: Callable[[str, int], str]) -> JudgeProbe:
    """Return a probe that submits a correct program and then a wrong one.

    pad(program, n_missing)   adds the shared part; n_missing is the difference from the longer program, in characters
    """

    def make(problem: ProbeProblem) -> Submissions:
        programs = problem.build_correct_program(), problem.build_wrong_program()
        longest = max(map(len, programs))
        correct, wrong = (format_completion(pad(program, longest - len(program))) for program in programs)
        return Submissions(problem, (wrong,), earlier=(correct,))

    return JudgeProbe(name, ALL_CONVENTIONS, make)


CLASS = ProbeClass(
    Group.FORGE,
    "memory",
    why="The judge caches verdicts by a part of the program, and a wrong program shares that part with a correct one.",
    remedy="Use a cryptographic hash of the whole program and all tests as the cache key, or do not cache verdicts.",
    source="ours",
    probes=(
        _make_pair_probe("same-beginning", lambda program, _: _NOTES + program),
        _make_pair_probe("same-end", lambda program, _: f"{program}\n{_NOTES}"),
        _make_pair_probe("same-length", lambda program, n_missing: f"{program}#{'.' * n_missing}\n"),
    ),
)
