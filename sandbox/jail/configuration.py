"""What a worker is told at its start."""

from dataclasses import dataclass

HINT = (
    "User namespaces must be allowed (sysctl user.max_user_namespaces above 0, and on Ubuntu"
    " kernel.apparmor_restrict_unprivileged_userns=0; a container needs --privileged or --security-opt"
    ' seccomp=unconfined apparmor=unconfined). To run with weaker isolation, say isolation="best-effort"'
    " (--isolation best-effort)."
)


@dataclass(frozen=True, slots=True)
class Configuration:
    """full_isolation   every layer or none of it; otherwise what this machine allows
    seed             as Sandbox has it
    numpy            directories that make up the package: name -> host path; empty if there is none
    image            descriptors of the namespaces of an image (image.py); empty: the worker makes one of its own
    no_namespaces    why there are no namespaces to be had; "": there are
    shared           directory in which the workers of a Sandbox share what took long to compile; "" for none
    alone            nobody but the worker and its runs is in its cgroup: it has a container to itself
    """

    full_isolation: bool
    seed: int | None
    numpy: dict[str, str]
    image: tuple[int, ...] = ()
    no_namespaces: str = ""
    shared: str = ""
    alone: bool = False
