"""`curate completion`"""

import click
from click.shell_completion import get_completion_class

_SHELLS = ["bash", "zsh", "fish"]


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print a script that completes commands, options and their values in a shell.

    \b
    bash: eval "$(curate completion bash)" in ~/.bashrc
    zsh:  eval "$(curate completion zsh)" in ~/.zshrc
    fish: curate completion fish > ~/.config/fish/completions/curate.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, "curate", "_CURATE_COMPLETE").source())
