"""Backends execute programs; one file each, named as in Sandbox(backend=...).

local            worker processes on this machine
docker           warm containers of a Docker engine
ray              the nodes of a Ray cluster
http             a remote service, `curate serve`

_protocol        the interface of all backends
_dispatch        the request queue and its lanes, for all backends except http
_workers         lanes of one worker each, for local and docker
_container       the privileges of a docker container
_cluster         lanes of one cluster node each, for ray
_supervisor      the process that executes the requests of one node
"""

import os
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sandbox.backends._protocol import Backend
from sandbox.packages import Package

if TYPE_CHECKING:  # mypy verifies that each is a Backend
    from sandbox.backends import docker, http, local, ray

    _BACKENDS: tuple[type[Backend], ...] = (docker.Backend, http.Backend, local.Backend, ray.Backend)

__all__ = ["Backend", "check_name", "find_packages", "list_names", "start"]


@cache
def list_names() -> tuple[str, ...]:
    """Return the names of all backends, sorted."""
    files = (entry.name for entry in os.scandir(__path__[0]))
    return tuple(sorted(name[:-3] for name in files if name.endswith(".py") and not name.startswith("_")))


def check_name(name: str) -> None:
    """Raise ValueError, with the list of backends, if there is no backend with this name."""
    if name not in list_names():
        raise ValueError(f"unknown backend {name!r}; choose one of {', '.join(list_names())}")


def start(name: str, *, workers: int | None, isolation: str, seed: int | None, **options: Any) -> Backend:
    """Start the backend with this name; `options` are keyword arguments of its class only.

    Raises ValueError if there is no such backend, and BackendUnavailable if it cannot start with these options.
    """
    check_name(name)
    module = import_module(f"{__name__}.{name}")
    backend: Backend = module.Backend(workers=workers, isolation=isolation, seed=seed, **options)
    return backend


def find_packages(name: str, requirements: Sequence[str], folder: str, **options: Any) -> tuple[Package, ...]:
    """Return Backend.packages of the backend with this name, without starting it. Raises as `start` does.

    requirements   the requested packages
    folder         folder of the packages; "" for the environment of this process
    """
    check_name(name)
    module = import_module(f"{__name__}.{name}")
    found: tuple[Package, ...] = module.find_packages(requirements, folder, **options)
    return found
