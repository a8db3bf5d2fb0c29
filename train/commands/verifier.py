"""Define the command `curate verifier`."""

from pathlib import Path

import click

from sandbox.commands.console import report_user_errors, require_extra
from train.commands.options import leave_on_signal


@click.command("verifier")
@click.argument("invite")
@click.option(
    "--model", default="", metavar="NAME", help="Folder or Hub id of the model on this machine.  [default: the run's]"
)
@click.option(
    "--key", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="File with the key of this verifier; made if it does not exist.  [default: ~/.config/curate/verifier.key]",
)  # fmt: skip
@click.option(
    "--patience", type=click.FloatRange(min=0), default=600.0, show_default=True, metavar="SECONDS",
    help="How long a coordinator that cannot be reached is called again.",
)  # fmt: skip
def command(invite: str, model: str, key: Path | None, patience: float) -> None:
    """Verify rollouts from a swarm by recomputing them with the model.

    INVITE is what `curate swarm invite FOLDER --verifier` prints. The verifier takes one file after another from the
    coordinator, repeats the computation, and sends its verdict; it opens no port. Start several for more speed.
    CUDA_VISIBLE_DEVICES says which GPU it gets. Ctrl-C and SIGTERM finish the file in hand, and leave.
    """
    require_extra("train")
    from sandbox.errors import SandboxError
    from train.errors import TrainError

    with report_user_errors(TrainError, SandboxError):
        from train.swarm.verifier.verifier_process import DEFAULT_KEY, VerifierOptions, VerifierProcess

        verifier = VerifierProcess(VerifierOptions(invite, model, key or Path(DEFAULT_KEY), patience), note=click.echo)
        with leave_on_signal(verifier.leave):
            verifier.run()
