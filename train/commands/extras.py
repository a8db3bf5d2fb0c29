"""Packages that training needs and that may be missing."""

from importlib.util import find_spec

import click

from curate.commands.extras import require_data


def require_train() -> None:
    missing = [name for name in ("torch", "transformers") if find_spec(name) is None]
    if missing:
        raise click.ClickException(f"{', '.join(missing)} not installed. Type: pip install 'curate-code[train]'")
    require_data()
