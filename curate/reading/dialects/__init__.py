"""The formats in which sources write tests. Reading one executes nothing and returns ParsedTests:

json_tests  JSON: two lists of inputs and outputs (TACO, APPS), or a list of objects, one for each test (LiveCodeBench,
            PrimeIntellect, codeforces)
assertions  Python code, which stays Python (HumanEval, MBPP, KodCode, LeetCodeDataset), or becomes calls if it consists
            of examples (trainers' copies of LeetCodeDataset)
detection   any of these, distinguished by their shape

Modules for tests that are Python code:

statements    a body of statements, test functions and test classes, turned into cases
dependencies  the earlier statements and the names of the submission that a test needs
literals      values of literal expressions, calls with literal arguments, and values as literals
"""

from dataclasses import dataclass, replace

from curate.problem import Wrapping
from curate.reading.stated_limits import UNSTATED
from curate.reading.values import ParseError, deduplicate_cases, shorten
from sandbox import Assertions, Case, Limits, Suite


@dataclass(frozen=True, slots=True)
class ParsedTests:
    """The tests of one problem in its source, including repeated tests."""

    cases: tuple[Case, ...]
    entry_point: str | None = None
    checker: str = "lcb"
    wrapping: Wrapping = Wrapping.NONE
    assertions: Assertions | None = None

    def to_suite(self, limits: Limits = UNSTATED, checker: str = "") -> Suite:
        """Return the distinct tests as a suite.

        limits   limits of one test; default: those for sources without stated limits
        checker  checker to use instead of the dialect's; empty for the dialect's

        Raises ParseError for another checker of tests in Python code.
        """
        if self.assertions is not None and checker not in ("", self.checker):
            raise ParseError(f"tests that are Python code say themselves what is right, so no checker {checker} can")
        cases = deduplicate_cases(self.cases)
        return Suite(
            cases,
            entry_point=self.entry_point,
            checker=checker or self.checker,
            limits=limits,
            assertions=self.assertions,
        )


def join_tests(public: ParsedTests, hidden: ParsedTests) -> ParsedTests:
    """Return all tests, the public ones first. Raises ParseError if their kinds or functions differ."""
    if not (public.cases and hidden.cases):
        return public if public.cases else hidden
    wrapping = public.wrapping if public.wrapping is hidden.wrapping else Wrapping.NONE
    both = replace(public, cases=public.cases + hidden.cases, wrapping=wrapping)
    if replace(hidden, cases=both.cases, wrapping=wrapping) != both:
        raise ParseError("public_tests and tests are of several kinds or for several functions")
    return both


def parse_function_name(value: object, name: str) -> str | None:
    """Return the name of the function to call, such as f for `Solution().f`; None if the value is empty.

    name: name of the field, for error messages

    Raises ParseError.
    """
    if value is None or value == "":
        return None
    if isinstance(value, str) and (function := value.rpartition(".")[2]).isidentifier():
        return function
    raise ParseError(f"{name} is no name of a function: {shorten(value)}")
