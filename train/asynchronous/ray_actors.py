"""Workers as actors of an existing Ray cluster, which places and restarts them. They call the controller over HTTP."""

import logging
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sandbox.extras import format_install_command
from train.asynchronous.rollout_process import RolloutOptions, RolloutProcess
from train.errors import ConfigError, RunError

log = logging.getLogger(__name__)

_CONNECT_SECONDS = 10.0
_PLACEMENT_SECONDS = 600.0  # includes the time in which the cluster starts machines
_MAX_RESTARTS = 3  # per actor
_SHUTDOWN_SECONDS = 30.0

LogLine = Callable[[str], None]


class _Actor:
    def __init__(self, options: RolloutOptions) -> None:
        self._rollout = RolloutProcess(options, note=print)  # Ray forwards the output of its actors

    def run(self) -> None:
        self._rollout.run()

    def leave(self) -> None:
        self._rollout.leave()


def run_workers_on_ray(address: str, options: RolloutOptions, *, workers: int, gpus: int, note: LogLine) -> None:
    """Run workers on a Ray cluster until the run ends.

    address  HOST:PORT of the cluster's head, or auto
    options  options of each worker; a number is appended to the name, and all machines must reach the URL
    gpus     GPUs of each worker; 0: run on CPUs
    note     receives lines about progress

    Raises ConfigError if there is no such cluster or it cannot hold the workers, and RunError if a worker fails.
    """
    try:
        import ray
        from ray.exceptions import RayError
        from ray.util import placement_group, remove_placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
    except ImportError as error:
        raise ConfigError(f"--ray: {error}. Type: {format_install_command('ray')}") from error
    _check_address(address)
    try:
        ray.init(address, log_to_driver=True, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise ConfigError(f"--ray {address}: there is no Ray cluster: {_extract_last_line(error)}") from error
    # One bundle per worker, so all GPUs of an engine are on one machine.
    bundle = {"CPU": 1.0, **({"GPU": float(gpus)} if gpus else {})}
    group = placement_group([bundle] * workers, strategy="PACK")
    try:
        if not group.wait(_PLACEMENT_SECONDS):
            raise ConfigError(
                f"--ray {address}: the cluster has no room for {workers} workers with {gpus} GPUs each, within "
                f"{_PLACEMENT_SECONDS:g} s. Choose fewer --workers or --gpus-per-worker, or add machines."
            )
        actor: Any = ray.remote(_Actor)
        actors: list[Any] = [
            actor.options(
                num_cpus=1,
                num_gpus=gpus,
                scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=number),
                max_restarts=_MAX_RESTARTS,
                max_task_retries=_MAX_RESTARTS,
                max_concurrency=2,  # `leave` must run concurrently with `run`
            ).remote(replace(options, name=f"{options.name or 'ray'}-{number}"))
            for number in range(workers)
        ]
        note(f"{workers} workers on the Ray cluster at {address}")
        runs = [each.run.remote() for each in actors]
        try:
            ray.get(runs)
        except RayError as error:
            raise RunError(f"a worker on the Ray cluster failed: {_extract_last_line(error)}") from error
        finally:
            for each in actors:
                each.leave.remote()
            ray.wait(runs, num_returns=len(runs), timeout=_SHUTDOWN_SECONDS)
    finally:
        remove_placement_group(group)
        ray.shutdown()


def _check_address(address: str) -> None:
    """Raise ConfigError if nothing listens at HOST:PORT. Ray itself would retry for minutes."""
    host, _, port = address.rpartition(":")
    if port.isdecimal() and "/" not in host:
        try:
            socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
        except (OSError, OverflowError) as error:
            raise ConfigError(
                f"--ray {address}: there is no Ray cluster: {error}. Start one with: ray start --head"
            ) from error


def _extract_last_line(error: Exception) -> str:
    cause = getattr(error, "cause", None) or error
    return str(cause).strip().splitlines()[-1] if str(cause).strip() else type(cause).__name__
