"""The kit of HTML pages: Jinja templates that extend base.html, and the filters that they share.

Every text goes through Jinja's escaping, since statements, answers and names come from strangers.
"""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curate.text.printable import escape_unprintable

if TYPE_CHECKING:
    from jinja2 import Environment

_PERCENT = "\N{NO-BREAK SPACE}%"


def render(template: Path, **values: Any) -> str:
    """Return the page that a template makes of values. The template may extend base.html.

    Half surrogate pairs, which cannot be encoded, become escapes such as \\udc80.
    """
    page = _environment(template.parent).get_template(template.name).render(values)
    return page.encode("utf-8", "backslashreplace").decode()


@cache
def _environment(folder: Path) -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([folder, Path(__file__).parent]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"count": _count, "percent": _percent, "seconds": _seconds, "number": _number}
    environment.filters |= {"printable": escape_unprintable}
    return environment


def _count(value: int) -> str:
    return f"{value:,}"


def _percent(share: float) -> str:
    """Return a percentage, with enough digits to distinguish it from 0 % and 100 %."""
    percent = 100 * share
    if percent >= 100:
        return f"{percent:,.0f}{_PERCENT}"
    rounded = f"{percent:.1f}" if 0.05 <= percent <= 99.95 or not percent else f"{percent:.2g}"
    return rounded.removesuffix(".0") + _PERCENT


def _seconds(value: float | None) -> str:
    """Return a duration with three significant digits."""
    if value is None:
        return "–"
    if value < 1:
        return f"{1000 * value:.3g} ms"
    return f"{value:.3g} s" if value < 100 else f"{value:,.0f} s"


def _number(value: Any) -> str:
    """Return the text for a value: a number without needless zeros, a list with commas, or a dash for None."""
    if value is None or value == [] or value == {}:
        return "–"
    if isinstance(value, list):
        return ", ".join(map(_number, value))
    if isinstance(value, dict):
        return ", ".join(f"{key} {_number(item)}" for key, item in value.items())
    return f"{value:,g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
