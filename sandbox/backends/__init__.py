"""The places where programs run, one file for each backend. The file's name is the backend's name in
Sandbox(backend=...).

local            worker processes on this machine
docker           warm containers of a Docker engine
ray              the nodes of a Ray cluster
http             a service elsewhere, `curate serve`

_protocol        the methods that every backend has
_dispatch        the request queue and the lanes that execute it; of all backends but http
_workers         lanes that are one worker each, of local and docker
_container       the privileges of a container of the docker backend
_cluster         lanes that are the nodes of a cluster, of ray
_supervisor      executes the requests that one node gets
"""

import os
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sandbox.backends._protocol import Backend
from sandbox.packages import Package

if TYPE_CHECKING:  # lets the type checker verify that each is a Backend
    from sandbox.backends import docker, http, local, ray

    _BACKENDS: tuple[type[Backend], ...] = (docker.Backend, http.Backend, local.Backend, ray.Backend)

__all__ = ["Backend", "check_name", "names", "packages", "start"]


@cache
def names() -> tuple[str, ...]:
    """Return the names of all backends, sorted."""
    files = (entry.name for entry in os.scandir(__path__[0]))
    return tuple(sorted(name[:-3] for name in files if name.endswith(".py") and not name.startswith("_")))


def check_name(name: str) -> None:
    """Raise ValueError, naming the choices, if there is no such backend."""
    if name not in names():
        raise ValueError(f"unknown backend {name!r}; choose one of {', '.join(names())}")


def start(name: str, *, workers: int | None, isolation: str, seed: int | None, **options: Any) -> Backend:
    """Start the backend of that name; `options` are the keywords that only this backend has.

    Raises ValueError if there is no such backend, and BackendUnavailable if it cannot provide what is requested.
    """
    check_name(name)
    module = import_module(f"{__name__}.{name}")
    backend: Backend = module.Backend(workers=workers, isolation=isolation, seed=seed, **options)
    return backend


def packages(name: str, words: Sequence[str], folder: str, **options: Any) -> tuple[Package, ...]:
    """Return the packages that programs would find on the backend of that name, without starting it.

    words    the requested packages
    folder   where they are installed; "" for the environment of this process

    Raises as `start` does.
    """
    check_name(name)
    module = import_module(f"{__name__}.{name}")
    found: tuple[Package, ...] = module.find_packages(words, folder, **options)
    return found
