"""The options that several commands share."""

import click

workers = click.option(
    "--workers", type=click.IntRange(min=1), help="Number of programs to run at once.  [default: one per core]"
)
isolation = click.option(
    "--isolation",
    type=click.Choice(["full", "best-effort"]),
    default="full",
    show_default=True,
    help="Whether to refuse, or to accept weaker isolation, where the machine cannot isolate fully.",
)
ray = click.option(
    "--ray",
    metavar="ADDRESS",
    help="Run programs on the nodes of a Ray cluster: HOST:PORT of its head node, or auto. --workers is per node.",
)
