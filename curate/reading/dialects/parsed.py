"""The tests of a problem, as every dialect returns them."""

from dataclasses import dataclass

from curate.problem import Wrapping
from curate.reading.values import Unparsable, distinct, short
from sandbox import Case, Limits, Suite


@dataclass(frozen=True, slots=True)
class Parsed:
    """The tests of one problem as its source has them, including repeated tests."""

    cases: tuple[Case, ...]
    entry_point: str | None = None
    checker: str = "lcb"
    wrapping: Wrapping = Wrapping.NONE

    def suite(self, limits: Limits, checker: str = "") -> Suite:
        """Return the distinct tests as a suite to judge with; `checker`, if given, replaces the dialect's checker."""
        cases = distinct(self.cases)
        return Suite(cases, entry_point=self.entry_point, checker=checker or self.checker, limits=limits)


def function_name(value: object, name: str) -> str | None:
    """Return the name of the function to call, such as f for `Solution().f`; None without one. Raises Unparsable."""
    if value is None or value == "":
        return None
    if isinstance(value, str) and (function := value.rpartition(".")[2]).isidentifier():
        return function
    raise Unparsable(f"{name} is no name of a function: {short(value)}")
