"""The change of a zygote's root directory to the image (image.py)."""

import os

from sandbox.jail import image, linux
from sandbox.jail.child import PACKAGES, RUN_ROOT


def enter_image(*, has_packages: bool, toolchain: list[str]) -> None:
    """Make the image the root directory, and become uid 0 of the user namespace if 0 is mapped. Raises OSError.

    has_packages   whether to include the packages from outside the standard library
    toolchain      paths of the machine to bind-mount at the same location

    The calling process must be a clone, in new user, mount and pid namespaces, of one in the image's namespaces.
    """
    root = image.COMPILE_DIRECTORY if toolchain else image.ROOT
    # After the change of uid, the process may lack access to the machine's directories.
    path_fds = {path: os.open(path, os.O_PATH) for path in toolchain}
    linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
    become_namespace_root()
    linux.mount(root, root, None, linux.MS_BIND | linux.MS_REC)  # pivot_root rejects an inherited mount
    if has_packages:
        linux.mount(image.PACKAGES, root + PACKAGES, None, linux.MS_BIND)
    for path, descriptor in path_fds.items():
        linux.mount(f"/proc/self/fd/{descriptor}", root + path, None, linux.MS_BIND | linux.MS_REC)
        linux.make_readonly(root + path, nodev=True)
        os.close(descriptor)
    flags = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
    linux.mount("proc", f"{root}{RUN_ROOT}/proc", "proc", flags, "subset=pid")
    linux.pivot_root(root)


def become_namespace_root() -> None:
    """Change to uid and gid 0 of the user namespace if they are mapped. Keeps the capabilities."""
    with open("/proc/self/uid_map") as file:
        if any(line.split()[0] == "0" for line in file):
            os.setresgid(0, 0, 0)
            os.setresuid(0, 0, 0)
