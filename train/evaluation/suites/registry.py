"""The suites by the names that users type, and which of them can read a file."""

from difflib import get_close_matches

from curate.errors import CurateError
from curate.reading.tables import TableFiles, UnreadableRow, read_rows
from train.evaluation.suites import code, codeforces, cruxeval, dataset, livecodebench, mathematics
from train.evaluation.suites.suite import RowSuite

SUITES = (
    code.HUMANEVAL,
    code.HUMANEVAL_PLUS,
    code.MBPP,
    code.MBPP_PLUS,
    livecodebench.SUITE,
    codeforces.SUITE,
    mathematics.AIME24,
    mathematics.AIME25,
    mathematics.MATH500,
    cruxeval.OUTPUT,
    cruxeval.INPUT,
)
_BY_NAME = {suite.name: suite for suite in SUITES}
NAMES = (*_BY_NAME, dataset.NAME)


def parse_suite(text: str) -> tuple[str, str]:
    """Return the name of a suite and the location of its rows.

    text   NAME, NAME=LOCATION or NAME?option=value, for the rows on the Hub

    Raises CurateError for an unknown name.
    """
    end = min((place for place in (text.find("="), text.find("?")) if place >= 0), default=len(text))
    name, rest = text[:end], text[end:]
    if name not in NAMES:
        near = get_close_matches(name, NAMES, 1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise CurateError(f"there is no suite {name!r}; there are {', '.join(NAMES)}.{hint}")
    location = rest[1:] if rest.startswith("=") else _on_hub(name, rest)
    if not location:
        raise CurateError(f"--suite {name} needs a place: {name}=PATH")
    return name, location


def _on_hub(name: str, options: str) -> str:
    """Return where a suite is on the Hub, with options; "" for a suite that has no place of its own."""
    place = _BY_NAME[name].hub_id if name in _BY_NAME else ""
    return place and place + (options.replace("?", "&", 1) if "?" in place else options)


def has_dates(name: str) -> bool:
    """Return whether a window of days can be applied to a suite. Some datasets have no dates; reading them tells."""
    return name not in _BY_NAME or _BY_NAME[name].has_dates


def choose_suite(table: TableFiles, name: str = "") -> RowSuite:
    """Return the suite that reads a table: the named one or, without a name, the only one that can.

    Raises CurateError if the named suite cannot read it, or if none or several can.
    """
    columns = tuple(dict.fromkeys(column for suite in SUITES for column in suite.columns))
    first = next(iter(read_rows(table, (), columns)), None)
    row = dict.fromkeys(columns) if first is None or isinstance(first, UnreadableRow) else first
    able = [suite for suite in SUITES if suite.recognizes(row)]
    choice = " or ".join(suite.name for suite in able)
    if name:
        suite = _BY_NAME[name]
        if suite in able:
            return suite
        others = f" It can be read as {choice}." if able else ""
        raise CurateError(f"{table.location}: its rows are not those of {suite.title}.{others}")
    if len(able) > 1:
        raise CurateError(
            f"{table.location} can be read as {choice}, whose verdicts differ. Say which: "
            f"--suite {able[-1].name}={table.location}"
        )
    if not able:
        titles = ", ".join(suite.title for suite in SUITES)
        raise CurateError(
            f"{table.location} is neither a dataset that curate built nor rows of {titles}. "
            "Build a dataset from it: curate build-dataset"
        )
    return able[0]
