"""The configuration of a worker."""

from dataclasses import dataclass

from sandbox.jail.packages import JailPackages

# The levels of isolation, from the strongest to the weakest; see docs/concepts/isolation.md.
NAMESPACES, LANDLOCK, NONE = "namespaces", "landlock", "none"
CONFINING_LEVELS = (NAMESPACES, LANDLOCK)  # levels that isolate programs from one another and from expected outputs

NEWEST_ABI = 7  # newest Landlock version that kernel/landlock.py supports


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """The configuration of a worker, which its caller sends as the first message.

    level             "namespaces", "landlock" or "none"
    seed              see Sandbox
    packages          packages for programs, besides the standard library
    image_fds         descriptors of the namespaces of an image (image.py); empty to make a new image
    image_copy        folder of the image for Landlock (image.py); "" to make a new one
    max_landlock_abi  the highest Landlock version to use
    fallback_reason   why stronger levels are not available; "" for the strongest level
    scope_failure     why systemd created no scope for the worker; "" if it created one, or none is necessary
    shared            directory in which the workers of a Sandbox share slow compilations; "" for none
    has_own_cgroup    whether only the worker and its runs are in their cgroup, as in their own container
    """

    level: str
    seed: int | None
    packages: JailPackages
    image_fds: tuple[int, ...] = ()
    image_copy: str = ""
    max_landlock_abi: int = NEWEST_ABI
    fallback_reason: str = ""
    scope_failure: str = ""
    shared: str = ""
    has_own_cgroup: bool = False
