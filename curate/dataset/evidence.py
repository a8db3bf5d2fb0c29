"""The table `evidence/`: programs and outputs that explain rejections, and suspicions about kept rows.

Texts are truncated to 4 KiB. The content hash omits the table, because outputs may differ from run to run.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from curate.json_records import json_key
from curate.problem import Rejection
from curate.text.printable import shorten_text
from sandbox import Program, Suite, Verdict

EVIDENCE = "evidence"
SUSPECT_REASON = "multi_answer_suspect"  # reason of kept rows in the table

EVIDENCE_COLUMNS = {
    "id": ("string", "`source/native-id`"),
    "source": ("string", "name of the source, as `curate sources` lists it"),
    "stage": ("string", "as in `rejected`; verify for a kept row"),
    "reason": ("string", f"as in `rejected`; {SUSPECT_REASON} for a kept row"),
    "cause": ("string", "as in `rejected`"),
    "detail": ("string", "as in `rejected`"),
    "statement": ("string", "statement of the problem, as the source has it"),
    "test": ("int32?", "number of the test, from 1; null: no solution was executed"),
    "kind": ("string?", "kind of the test: stdin, call or assertion"),
    "entry_point": ("string?", "name of the function that the test calls"),
    "checker": ("string?", "name of the rule for comparing outputs"),
    "input": ("string?", "input of the test: text, a JSON list of arguments, or Python"),
    "expected": ("string?", "expected output"),
    "programs": ("list<string>", "programs executed on the test; the reference, if any, is first"),
    "program_languages": ("list<string>", "language of each program"),
    "verdicts": ("list<string>", "verdict on each program"),
    "messages": ("list<string>", "the sandbox's messages: the end of stderr, or the beginning of an output"),
    "outputs": ("list<string>", "output or return value of each program; null: none to show"),
}
# Columns with an entry for each program.
PROGRAM_COLUMNS = ("program_languages", "verdicts", "messages", "outputs", "programs")


@dataclass(frozen=True, slots=True)
class SolutionOutput:
    """The result of one solution on a test.

    solution_index  index of the solution among the candidates of the problem
    detail          the sandbox's explanation of the verdict
    output          the solution's output or return value, truncated; None if unknown
    """

    solution_index: int = field(metadata=json_key("solution"))
    verdict: Verdict
    detail: str
    output: str | None


@dataclass(frozen=True, slots=True)
class EvidenceTest:
    """A test of a problem, at `case_index` of its suite, and the outputs of some programs on it."""

    suite: Suite
    case_index: int
    answers: tuple[tuple[Program, SolutionOutput], ...]


def make_evidence_row(rejection: Rejection, statement: str, test: EvidenceTest | None = None) -> dict[str, Any]:
    """Return a row of the table.

    rejection  the rejection of the row, or the suspicion about a kept row in the same form
    test       the test on which solutions failed; None if no solution was executed
    """
    row: dict[str, Any] = dict.fromkeys(EVIDENCE_COLUMNS)
    row |= {name: getattr(rejection, name) for name in ("id", "source", "stage", "reason", "cause", "detail")}
    row |= {"statement": shorten_text(statement)}
    answers = test.answers if test else ()
    row |= {
        "programs": _shorten_texts(program.source for program, _ in answers),
        "program_languages": [program.language for program, _ in answers],
        "verdicts": [answer.verdict.value for _, answer in answers],
        "messages": _shorten_texts(answer.detail for _, answer in answers),
        "outputs": [answer.output for _, answer in answers],
    }
    if test is not None:
        suite, case = test.suite, test.suite.cases[test.case_index]
        row |= {
            "test": test.case_index + 1,
            "kind": _classify_suite(suite),
            "entry_point": suite.entry_point,
            "checker": suite.checker,
            "input": shorten_text(case.input),
            "expected": shorten_text(case.expected),
        }
    return row


def get_sort_key(row: dict[str, Any]) -> tuple[str, ...]:
    """Return the sort key of a row of `evidence` or `rejected`."""
    return tuple(row[name] for name in ("id", "stage", "reason", "detail"))


def name_programs(row: dict[str, Any]) -> list[str]:
    """Return a name for each program of a row of the table, such as "reference" or "solution 2"."""
    n_solutions = 0
    names = []
    for verdict in row["verdicts"]:
        if verdict == "accepted" or row["reason"] == "flaky_reference":
            names.append("reference")
        else:
            n_solutions += 1
            names.append(f"solution {n_solutions}")
    return names


def describe_test_kind(row: dict[str, Any]) -> str:
    """Describe the kind of test in a row of the table, and the checker of the test."""
    kinds = {"stdin": "standard input and output", "call": f"a call of {row['entry_point']}", "assertion": "Python"}
    return f"{kinds[row['kind']]}, checker {row['checker']}"


def _shorten_texts(texts: Iterable[str]) -> list[str]:
    return [shorten_text(text) for text in texts]


def _classify_suite(suite: Suite) -> str:
    if suite.assertions is not None:
        return "assertion"
    return "stdin" if suite.entry_point is None else "call"
