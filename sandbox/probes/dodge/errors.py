"""Fails where the expected output is empty, so that the missing output matches it."""

from sandbox.probes.probe import (
    CALLS,
    ENTRY,
    STDIN,
    Group,
    JudgeProbe,
    ProbeClass,
    ProbeProblem,
    Submissions,
    call_problem,
    fenced,
    stdin_problem,
)  # fmt: skip

_SILENT = stdin_problem(
    "silent",
    {"1\n": "", "2\n": ""},
    "input()\n",
)


def _fails(name: str, source: str) -> JudgeProbe:
    """Return a probe whose program fails where a correct one prints nothing."""
    return JudgeProbe(name, STDIN, lambda _: Submissions(_SILENT, (fenced(source),)))


def _raises(name: str, source: str, value: object = None) -> JudgeProbe:
    """Return a probe whose function fails where a correct one returns an empty value."""

    def make(problem: ProbeProblem) -> Submissions:
        reference = f"def {ENTRY}(*values):\n    return {value!r}\n"
        own = call_problem("silent", [([1], value), ([2], value)], reference, problem.convention)
        return Submissions(own, (fenced(own.program(source)),))

    return JudgeProbe(name, CALLS, make)


CLASS = ProbeClass(
    Group.DODGE,
    "errors",
    why="The judge compares the output or return value even if the submission failed.",
    remedy="Check the exit status or the exception first; compare only the results of successful runs.",
    source="https://github.com/verl-project/verl/pull/7853",
    probes=(
        _fails("raises-where-nothing-is-printed", "raise ValueError('failed')"),
        _fails("bad-syntax-where-nothing-is-printed", "def broken(:\n"),
        _fails("bad-import-where-nothing-is-printed", "import no_such_module_anywhere"),
        _fails("exit-status-where-nothing-is-printed", "raise SystemExit(3)"),
        _raises("raises-where-null-is-returned", f"def {ENTRY}(*values):\n    raise ValueError('failed')\n"),
        _raises("raises-where-text-is-empty", f"def {ENTRY}(*values):\n    raise ValueError('failed')\n", ""),
        _raises("raises-where-list-is-empty", f"def {ENTRY}(*values):\n    raise ValueError('failed')\n", []),
        _raises("raises-where-false-is-returned", f"def {ENTRY}(*values):\n    raise ValueError('failed')\n", False),
        _raises("no-parameters-where-null-is-returned", f"def {ENTRY}():\n    return None\n"),
        _raises("exits-where-null-is-returned", f"import os\ndef {ENTRY}(*values):\n    os._exit(1)\n"),
    ),
)
