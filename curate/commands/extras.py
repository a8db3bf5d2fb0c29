"""Packages that a command needs and that may be missing."""

from importlib.util import find_spec

import click


def require_data() -> None:
    missing = [
        name
        for name in ("datasketch", "huggingface_hub", "jinja2", "pandas", "pyarrow", "xxhash")
        if find_spec(name) is None
    ]
    if missing:
        raise click.ClickException(f"{', '.join(missing)} not installed. Type: pip install 'curate-code[data]'")
