"""Define the command `curate rollout`."""

import os
import re
from pathlib import Path
from typing import Any

import click

from sandbox.commands.console import report_user_errors, require_extra
from train.commands.options import engine_option, leave_on_signal, report_interruption, validate_urls
from train.errors import TrainError


def _validate_name(context: click.Context, option: click.Parameter, name: str) -> str:
    require_extra("train")
    from train.asynchronous.messages import NAME_PATTERN

    if name and not re.match(NAME_PATTERN, name):
        raise click.BadParameter(
            f"{name[:80]!r} is not a worker name. Use at most 200 letters, digits and the characters . _ : @ -"
        )
    return name


@click.command("rollout")
@click.option(
    "--controller", "url", default="", metavar="URL",
    help="URL of the run's controller: http://HOST:PORT of workers.listen.  [default: none; give this or --join]",
)  # fmt: skip
@click.option(
    "--join", "invite", default="", metavar="INVITE",
    help="Invite to the run's swarm, which need not trust this machine.  [default: none; give this or --controller]",
)  # fmt: skip
@click.option(
    "--key", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="File with the key of this node, for --join; created if missing.  [default: ~/.config/curate/node.key]",
)  # fmt: skip
@click.option(
    "--model", default="", metavar="NAME", help="Folder or Hub id of the model on this machine.  [default: the run's]"
)
@engine_option
@click.option(
    "--name", default="", callback=_validate_name,
    help="Name of the worker, unique in the run.  [default: derived from the host name]",
)  # fmt: skip
@click.option(
    "--patience", type=click.FloatRange(min=0), default=600.0, show_default=True, metavar="SECONDS",
    help="Time limit of retries while the run is unreachable.",
)  # fmt: skip
@click.option(
    "--relay", "relays", multiple=True, metavar="URL", callback=validate_urls,
    help="URL of a relay to fetch the weights from. Can be given several times.  [default: fetch from the controller]",
)  # fmt: skip
@click.option(
    "--public-key", default="", metavar="HEX",
    help="Public key of the run, which the first `curate relay` prints; for --relay.  [default: none]",
)  # fmt: skip
@click.option(
    "--ray", metavar="ADDRESS",
    help="Ray cluster on which the workers start: HOST:PORT, or auto.  [default: one worker, on this machine]",
)  # fmt: skip
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Workers on the Ray cluster.")
@click.option(
    "--gpus-per-worker", type=click.IntRange(min=0), default=1, show_default=True,
    help="Number of GPUs of each worker on the Ray cluster, equal to tensor_parallel of its engine.",
)  # fmt: skip
def command(
    url: str, invite: str, key: Path | None, model: str, engine: dict[str, Any], name: str, patience: float,
    relays: tuple[str, ...], public_key: str, ray: str | None, workers: int, gpus_per_worker: int,
) -> None:  # fmt: skip
    """Run a rollout worker for a remote training run.

    The worker requests prompts from the run, submits completions, and fetches new weights; it opens no port. Workers
    may join, leave or crash at any time. CUDA_VISIBLE_DEVICES selects the engine's GPUs; the environment variable
    CURATE_TOKEN holds the run's token. On Ctrl-C or SIGTERM, the worker submits finished completions and releases the
    other leases.

    With --join, the run is a swarm: verifiers check every completion, and the weights come from relays.
    """
    require_extra("train")
    if bool(url) == bool(invite):
        raise click.UsageError("Name the run, either with --controller URL or with --join INVITE.")
    if bool(relays) != bool(public_key):
        raise click.UsageError(
            "--relay needs --public-key, to verify the run's signature of the weights, and --public-key needs --relay."
        )
    if invite and relays:
        raise click.UsageError("--relay is for --controller: an invite names the relays.")
    if invite and (name or ray is not None):
        raise click.UsageError("--name and --ray are for --controller: a swarm identifies nodes by their keys.")
    if key is not None and not invite:
        raise click.UsageError("--key is for --join.")
    with report_user_errors(TrainError):
        if invite:
            from train.swarm.node import DEFAULT_KEY_PATH, NodeOptions, NodeProcess

            node_key = key or Path(DEFAULT_KEY_PATH)
            node = NodeProcess(NodeOptions(invite, model, engine, node_key, patience), note=click.echo)
            with leave_on_signal(node.leave):
                node.run()
            return
        from train.asynchronous.rollout_process import TOKEN_VARIABLE, RolloutOptions, RolloutProcess
        from train.swarm.broadcast.relay_source import RelaySourceFactory
        from train.swarm.signatures import parse_public_key

        source_for = RelaySourceFactory(relays, parse_public_key(public_key)) if relays else None
        options = RolloutOptions(url, model, engine, name, patience, os.environ.get(TOKEN_VARIABLE) or None, source_for)
        if ray is not None:
            from train.asynchronous.ray_actors import run_workers_on_ray

            with report_interruption("the workers are shutting down"):
                run_workers_on_ray(ray, options, workers=workers, gpus=gpus_per_worker, note=click.echo)
        else:
            worker = RolloutProcess(options, note=click.echo)
            with leave_on_signal(worker.leave):
                worker.run()
