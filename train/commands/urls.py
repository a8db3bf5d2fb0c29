"""A check of options that name servers by their URL."""

from typing import TypeVar
from urllib.parse import urlsplit

import click

Given = TypeVar("Given", str, tuple[str, ...])


def validate_urls(context: click.Context, option: click.Parameter, value: Given) -> Given:
    """Return the value of an option as it is: one URL, several, or none. A callback of click.

    Raises click.BadParameter for what does not begin with http:// or https:// and the name of a host.
    """
    for url in (value,) if isinstance(value, str) else value:
        if url and not _is_url(url):
            raise click.BadParameter(f"a URL is http://HOST:PORT or https://HOST, unlike {url[:100]!r}")
    return value


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # a port that is not a number, or brackets that do not match
        return False
