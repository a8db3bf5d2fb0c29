"""The `curate` command."""

import click


@click.group()
def main() -> None:
    """Turn raw programming problems into datasets whose rewards can be trusted."""
