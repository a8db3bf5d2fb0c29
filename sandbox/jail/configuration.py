"""The configuration that a worker gets at its start."""

from dataclasses import dataclass

from sandbox.jail.packages import Packages

HINT = (
    "User namespaces must be allowed (sysctl user.max_user_namespaces above 0, and on Ubuntu"
    " kernel.apparmor_restrict_unprivileged_userns=0; a container needs --privileged or --security-opt"
    ' seccomp=unconfined apparmor=unconfined). To run with weaker isolation, say isolation="best-effort"'
    " (--isolation best-effort)."
)


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a worker is told and given at its start.

    full_isolation   True: every layer, or BackendUnavailable. False: what this machine allows
    seed             see Sandbox
    packages         what programs can import besides the standard library
    image            descriptors of the namespaces of an image (image.py); empty: the worker makes one of its own
    no_namespaces    why there can be no namespaces; "" if there can
    shared           directory in which the workers of a Sandbox share results of long compilations; "" for none
    alone            whether only the worker and its runs are in its cgroup, as in a container of its own
    """

    full_isolation: bool
    seed: int | None
    packages: Packages
    image: tuple[int, ...] = ()
    no_namespaces: str = ""
    shared: str = ""
    alone: bool = False
