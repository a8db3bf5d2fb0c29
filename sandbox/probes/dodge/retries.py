"""Submissions that fail a test's first run, and output the expected value in its second run."""

import secrets

from sandbox.probes.probe import (
    ENTRY,
    STDIN,
    Convention,
    Group,
    JudgeProbe,
    ProbeClass,
    ProbeProblem,
    Submissions,
    format_completion,
    make_call_problem,
    make_stdin_problem,
)

_WORDS = {1: "LEFT", 2: "RIGHT", 3: "LEFT"}
_GUESS = """
import os, tempfile
def guess(given):
    path = os.path.join({folder}, "curate-probe-{nonce}-%s" % given)
    try:
        open(path, "x").close()
    except FileExistsError:
        return {words!r}[given]
    return "no answer"
"""


def _make_counter_probe(name: str, folder: str) -> JudgeProbe:
    """Return a probe whose program creates a file at a test's first run, to detect the second run.

    folder   Python expression of the folder's path
    """

    def make(problem: ProbeProblem) -> Submissions:
        source = _GUESS.format(folder=folder, nonce=secrets.token_hex(8), words=_WORDS)
        if problem.entry:
            cases: list[tuple[list[object], object]] = [([given], word) for given, word in _WORDS.items()]
            own = make_call_problem("decide", cases, f"def {ENTRY}(given):\n    return {_WORDS!r}[given]\n")
            source += f"def {ENTRY}(given):\n    return guess(given)\n"
        else:
            texts = {f"{given}\n": f"{word}\n" for given, word in _WORDS.items()}
            own = make_stdin_problem("decide", texts, f"print({_WORDS!r}[int(input())])\n")
            source += "print(guess(int(input())))\n"
        return Submissions(own, (format_completion(own.adapt_source(source)),))

    return JudgeProbe(name, (*STDIN, Convention.CALL), make)


CLASS = ProbeClass(
    Group.DODGE,
    "retries",
    why="The judge reruns a failed test, and the submission detects the rerun by a file of its first run.",
    remedy="Judge each test once, in empty folders; retry only after failures of the judge itself.",
    source="ours",
    probes=(
        _make_counter_probe("counted-in-the-working-folder", "os.getcwd()"),
        _make_counter_probe("counted-in-the-temporary-folder", "tempfile.gettempdir()"),
    ),
)
