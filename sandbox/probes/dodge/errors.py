"""Submissions that fail where the expected output is empty, so that their missing output matches it."""

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
    make_call_problem,
    make_stdin_problem,
)  # fmt: skip

_SILENT = make_stdin_problem(
    "silent",
    {"1\n": "", "2\n": ""},
    "input()\n",
)


def _make_failure_probe(name: str, source: str) -> JudgeProbe:
    """Return a probe whose program fails where a correct one prints nothing."""
    return JudgeProbe(name, STDIN, lambda _: Submissions(_SILENT, (format_completion(source),)))


def _make_empty_value_probe(name: str, source: str, value: object = None) -> JudgeProbe:
    """Return a probe whose function fails where a correct one returns an empty value."""

    def make(problem: ProbeProblem) -> Submissions:
        reference = f"def {ENTRY}(*values):\n    return {value!r}\n"
        own = make_call_problem("silent", [([1], value), ([2], value)], reference, problem.convention)
        return Submissions(own, (format_completion(own.adapt_source(source)),))

    return JudgeProbe(name, CALLS, make)


CLASS = ProbeClass(
    Group.DODGE,
    "errors",
    why="The judge compares the output or return value even if the submission failed.",
    remedy="Check the exit status or the exception first; compare only the results of successful runs.",
    source="https://github.com/verl-project/verl/pull/7853",
    probes=(
        _make_failure_probe("raises-where-nothing-is-printed", "raise ValueError('failed')"),
        _make_failure_probe("bad-syntax-where-nothing-is-printed", "def broken(:\n"),
        _make_failure_probe("bad-import-where-nothing-is-printed", "import no_such_module_anywhere"),
        _make_failure_probe("exit-status-where-nothing-is-printed", "raise SystemExit(3)"),
        _make_empty_value_probe(
            "raises-where-null-is-returned", f"def {ENTRY}(*values):\n    raise ValueError('failed')\n"
        ),
        _make_empty_value_probe(
            "raises-where-text-is-empty", f"def {ENTRY}(*values):\n    raise ValueError('failed')\n", ""
        ),
        _make_empty_value_probe(
            "raises-where-list-is-empty", f"def {ENTRY}(*values):\n    raise ValueError('failed')\n", []
        ),
        _make_empty_value_probe(
            "raises-where-false-is-returned", f"def {ENTRY}(*values):\n    raise ValueError('failed')\n", False
        ),
        _make_empty_value_probe("no-parameters-where-null-is-returned", f"def {ENTRY}():\n    return None\n"),
        _make_empty_value_probe("exits-where-null-is-returned", f"import os\ndef {ENTRY}(*values):\n    os._exit(1)\n"),
    ),
)
