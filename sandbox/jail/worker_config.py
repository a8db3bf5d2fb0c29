"""The configuration of a worker."""

from dataclasses import dataclass

from sandbox.jail.packages import JailPackages

# The levels of isolation, from the strongest to the weakest; see docs/concepts/isolation.md.
NAMESPACES, LANDLOCK, NONE = "namespaces", "landlock", "none"
CONFINING_LEVELS = (NAMESPACES, LANDLOCK)  # those that isolate programs from one another and from expected outputs

NEWEST_ABI = 7  # of Landlock that landlock.py supports


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """The configuration that a worker gets at its start.

    level             "namespaces", "landlock" or "none"
    seed              see Sandbox
    packages          the packages that programs can import besides the standard library
    image_fds         descriptors of the namespaces of an image (image.py); empty if the worker makes its own
    image_copy        the folder that holds the image for Landlock (image.py); "" if the worker makes its own
    max_landlock_abi  the highest version of Landlock to use
    refusal_reason    why there is no stronger level; "" if there is
    scope_failure     why systemd has not made a scope for the worker; "" if it has, or none is needed
    shared            directory in which the workers of a Sandbox share results of long compilations; "" for none
    has_own_cgroup    whether only the worker and its runs are in its cgroup, as in a container of its own
    """

    level: str
    seed: int | None
    packages: JailPackages
    image_fds: tuple[int, ...] = ()
    image_copy: str = ""
    max_landlock_abi: int = NEWEST_ABI
    refusal_reason: str = ""
    scope_failure: str = ""
    shared: str = ""
    has_own_cgroup: bool = False
