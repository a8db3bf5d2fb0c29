"""SandboxOptions: a backend and its options, for commands, configurations and builds."""

from dataclasses import dataclass
from typing import Any

from sandbox import backends
from sandbox.box import Sandbox
from sandbox.packages import Package, parse_requirements
from sandbox.program import Limits

_ADDRESS_KEYWORDS = {"ray": "address", "http": "url"}  # backend -> its keyword for the address


@dataclass(frozen=True, slots=True)
class SandboxOptions:
    """The options of a Sandbox. Raises ValueError for contradictory options.

    backend        local, docker, ray or http
    address        for ray, HOST:PORT of the head node or "auto"; for http, the URL of the service; otherwise empty
    image          image name for the docker backend; empty for the image of `make sandbox-image`
    workers        number of concurrent programs, on Ray per node; None for one per processor
    isolation      "full" or "best-effort"; see Sandbox
    packages       packages that programs can import besides the standard library and numpy; see Sandbox
    packages_from  their installation folder, for the backends local and ray; see Sandbox
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
        if self.address and self.backend not in _ADDRESS_KEYWORDS:
            raise ValueError(f"an address is for the backends ray and http, not for {self.backend}")
        if self.backend == "http" and not self.address:
            raise ValueError("the backend http needs an address: the URL that `curate serve` prints")
        if self.image and self.backend != "docker":
            raise ValueError(f"an image is for the backend docker, not for {self.backend}")
        if self.packages_from and self.backend not in ("local", "ray"):
            raise ValueError(f"a folder of packages is for the backends local and ray, not for {self.backend}")
        if self.packages_from and not self.packages:
            raise ValueError("packages_from needs the names of packages in that folder: set packages, too")
        if self.packages:
            parse_requirements(self.packages)

    def open(self, *, seed: int | None = None, max_limits: Limits | None = None) -> Sandbox:
        """Open a Sandbox with these options. Parameters and exceptions are those of Sandbox."""
        return Sandbox(
            self.workers,
            backend=self.backend,
            isolation=self.isolation,
            seed=seed,
            max_limits=max_limits,
            packages=self.packages,
            packages_from=self.packages_from,
            **self._make_backend_keywords(),
        )

    def find_packages(self) -> tuple[Package, ...]:
        """Return the `packages` of a Sandbox with these options, without starting workers.

        Raises BackendUnavailable if a package is missing or the backend is unreachable.
        """
        if not self.packages:
            return ()
        return backends.find_packages(self.backend, self.packages, self.packages_from, **self._make_backend_keywords())

    def _make_backend_keywords(self) -> dict[str, Any]:
        keywords = {_ADDRESS_KEYWORDS[self.backend]: self.address} if self.address else {}
        return {**keywords, "image": self.image} if self.image else keywords
