"""`curate sources`"""

from importlib import import_module

import click


@click.command("sources")
def command() -> None:
    """List the sources of problems, with their known defects."""
    from curate.pipeline import source_names

    for name in source_names():
        source = import_module(f"curate.sources.{name}")
        click.echo(f"{name}: {source.TITLE}, {source.SIZE_DESCRIPTION}")
        click.echo(f"    Hub id {source.HUB_ID or 'none'}, licence {source.LICENCE}")
        click.echo(f"    known defects: {source.DEFECTS}")
