"""SandboxOptions: where and how programs run, for commands, configurations and builds."""

from dataclasses import dataclass
from typing import Any

from sandbox import backends
from sandbox.box import Sandbox
from sandbox.packages import Package, parse_requirements
from sandbox.program import Limits

# For each backend that needs an address, the keyword of its class.
_KEYWORD_OF_ADDRESS = {"ray": "address", "http": "url"}


@dataclass(frozen=True, slots=True)
class SandboxOptions:
    """The options with which to open a Sandbox. Raises ValueError for contradictory options.

    backend        where programs run: local, docker, ray or http
    address        for ray, HOST:PORT of the head node or "auto"; for http, the URL of the service; otherwise empty
    image          name of the image of the docker backend's containers; empty: the one that `make sandbox-image` builds
    workers        number of programs that run at once, on Ray on each node; None: one for each processor
    isolation      "full", or "best-effort" to judge without isolation where there can be none
    packages       packages besides the standard library and numpy that programs can import; see Sandbox
    packages_from  folder that they are installed in, for the backends local and ray; see Sandbox
    """

    backend: str = "local"
    address: str = ""
    image: str = ""
    workers: int | None = None
    isolation: str = "full"
    packages: tuple[str, ...] = ()
    packages_from: str = ""

    def __post_init__(self) -> None:
        backends.check_name(self.backend)
        if self.address and self.backend not in _KEYWORD_OF_ADDRESS:
            raise ValueError(f"an address is for the backends ray and http, not for {self.backend}")
        if self.backend == "http" and not self.address:
            raise ValueError("the backend http needs an address: the URL that `curate serve` prints")
        if self.image and self.backend != "docker":
            raise ValueError(f"an image is for the backend docker, not for {self.backend}")
        if self.packages_from and self.backend not in ("local", "ray"):
            raise ValueError(f"a folder of packages is for the backends local and ray, not for {self.backend}")
        if self.packages_from and not self.packages:
            raise ValueError("a folder of packages needs the names of those that programs can import")
        if self.packages:
            parse_requirements(self.packages)

    def open(self, *, seed: int | None = None, max_limits: Limits | None = None) -> Sandbox:
        """Open a sandbox with these options; the parameters are those of Sandbox, and it raises what Sandbox raises."""
        return Sandbox(
            self.workers,
            backend=self.backend,
            isolation=self.isolation,
            seed=seed,
            max_limits=max_limits,
            packages=self.packages,
            packages_from=self.packages_from,
            **self._own(),
        )

    def find_packages(self) -> tuple[Package, ...]:
        """Return the `packages` of a Sandbox with these options, without starting workers.

        Raises BackendUnavailable if a package is missing, or if the backend cannot be reached.
        """
        if not self.packages:
            return ()
        return backends.packages(self.backend, self.packages, self.packages_from, **self._own())

    def _own(self) -> dict[str, Any]:
        """Return the keywords specific to this backend."""
        own = {_KEYWORD_OF_ADDRESS[self.backend]: self.address} if self.address else {}
        return {**own, "image": self.image} if self.image else own
