"""The Jinja environment of HTML pages, and their filters. Jinja escapes all text, which is untrusted."""

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curate.text.document import Cell, Code, Seconds, Share, format_seconds, format_share, format_value
from curate.text.printable import escape_unprintable

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


def render(template: Path, **values: Any) -> str:
    """Render a template, which may extend base.html. Lone surrogates become escapes such as \\udc80."""
    page = _create_environment(template.parent).get_template(template.name).render(values)
    return page.encode("utf-8", "backslashreplace").decode()


@cache
def _create_environment(folder: Path) -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([folder, Path(__file__).parent]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "count": "{:,}".format,
        "percent": _format_percent,
        "number": format_value,
        "cell": _format_cell,
    }
    environment.filters |= {"printable": escape_unprintable, "code_spans": _format_code_spans}
    return environment


def _format_percent(share: float) -> str:
    return format_share(share).replace(" ", "\N{NO-BREAK SPACE}")


def _format_code_spans(text: str) -> "Markup":
    from markupsafe import Markup, escape

    return Markup(re.sub("`([^`]*)`", r"<code>\1</code>", str(escape(text))))


def _format_cell(value: Cell) -> "Markup":
    """Format a cell of a table, or a part of a title, as HTML."""
    from markupsafe import Markup, escape

    if isinstance(value, Code):
        return Markup("<code>{}</code>").format(str(value))
    if isinstance(value, Share | Seconds):
        return escape(_format_percent(value) if isinstance(value, Share) else format_seconds(value))
    return escape(format_value(value))
