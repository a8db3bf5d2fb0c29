"""What every way of writing tests down comes to."""

from dataclasses import dataclass

from curate.problem import Wrapping
from curate.reading.values import Unparsable, distinct, short
from sandbox import Case, Limits, Suite


@dataclass(frozen=True, slots=True)
class Parsed:
    """The tests of one problem as its source has them, repeated ones included."""

    cases: tuple[Case, ...]
    entry_point: str | None = None
    checker: str = "lcb"
    wrapping: Wrapping = Wrapping.NONE

    def suite(self, limits: Limits, checker: str = "") -> Suite:
        """The distinct ones, ready to judge with."""
        cases = distinct(self.cases)
        return Suite(cases, entry_point=self.entry_point, checker=checker or self.checker, limits=limits)


def function_name(found: object, name: str) -> str | None:
    """The name of the function to call, None where there is none; `Solution().f` is called f. Raises Unparsable."""
    if found is None or found == "":
        return None
    if isinstance(found, str) and (function := found.rpartition(".")[2]).isidentifier():
        return function
    raise Unparsable(f"{name} is no name of a function: {short(found)}")
