"""Working directories, and chroots if the warden is root, for runs without namespaces.

All runs of a zygote use one working directory, one after another. If the warden has CAP_SYS_CHROOT and CAP_SETUID, as
root in an ordinary container, the programs of a zygote get their own uid and a chroot. It contains only their working
directory, devices, and hard links to the image. Otherwise, and for compilers, programs have the machine's root, and
Landlock denies access to its files (kernel/landlock.py).
"""

import contextlib
import os
import stat
from pathlib import Path

from sandbox.jail import image
from sandbox.jail.child import PACKAGES, VISIBLE_WORK
from sandbox.jail.spawn import ZygoteConfinement, ZygoteKind, compute_program_uid
from sandbox.jail.worker_config import LANDLOCK, WorkerConfig
from sandbox.kernel import directories, landlock, linux, stale_resources

_UID_CAPABILITIES = (linux.CAP_SETUID, linux.CAP_SETGID, linux.CAP_KILL, linux.CAP_CHOWN)
_ROOT_CAPABILITIES = (*_UID_CAPABILITIES, linux.CAP_SYS_CHROOT, linux.CAP_MKNOD)
_DEVICES = {"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9}  # name -> minor number; the major number is 1


class ConfinementManager:
    """Manager of working directories and chroots for zygotes. Raises OSError if the kernel lacks a feature."""

    def __init__(self, configuration: WorkerConfig) -> None:
        self._level = configuration.level
        self._abi = min(landlock.read_abi(), configuration.max_landlock_abi) if configuration.level == LANDLOCK else 0
        if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
            raise FileNotFoundError("/proc/PID/task/TID/children is missing; use a kernel with CONFIG_PROC_CHILDREN")
        linux.prctl(linux.PR_SET_DUMPABLE, 0)  # programs with the same uid must not read this process's memory
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
        self._folder = stale_resources.make_run_directory()
        capabilities = _read_capabilities()
        self._has_own_uids = capabilities.issuperset(_UID_CAPABILITIES)
        self._has_own_roots = capabilities.issuperset(_ROOT_CAPABILITIES)
        copy = configuration.image_copy
        if not copy:
            copy = f"{self._folder}/image"
            os.mkdir(copy, 0o700)
            image.make_copy(configuration.packages, copy)
        self._copy = image.ImageCopy(copy)
        if self._has_own_uids:
            for folder in {self._folder, copy}:  # programs with another uid need access
                os.chmod(folder, 0o711)

    def make(self, kind: ZygoteKind, zygote_number: int) -> ZygoteConfinement:
        """Make the directories for a new zygote. Raises OSError."""
        folder = f"{self._folder}/{zygote_number}"
        owner = compute_program_uid(zygote_number) if self._has_own_uids else None
        if self._has_own_roots and owner is not None and not kind.compiler_language:
            with contextlib.suppress(OSError):  # such as a file system without device nodes
                self._make_root(folder, owner, has_packages=bool(kind.preloaded_modules))
                return ZygoteConfinement(self._level, VISIBLE_WORK, self._copy, folder, owner, self._abi)
            self.remove(zygote_number)
            self._has_own_roots = False
        os.mkdir(folder, 0o700)
        if owner is not None:
            os.chown(folder, owner, owner)
        return ZygoteConfinement(self._level, folder, self._copy, "", owner, self._abi)

    def _make_root(self, folder: str, owner: int, *, has_packages: bool) -> None:
        image.link_folder(self._copy.root, folder)
        if has_packages:
            image.link_folder(self._copy.packages, folder + PACKAGES)
        os.mkdir(folder + VISIBLE_WORK, 0o700)
        os.chown(folder + VISIBLE_WORK, owner, owner)
        for name, minor in _DEVICES.items():
            device = f"{folder}/dev/{name}"
            os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, minor))
            os.chmod(device, 0o666)
            os.close(os.open(device, os.O_RDONLY))

    def remove(self, zygote_number: int) -> None:
        """Remove the directories of an exited zygote."""
        with contextlib.suppress(OSError):
            directories.empty_directory(f"{self._folder}/{zygote_number}")
            os.rmdir(f"{self._folder}/{zygote_number}")

    def close(self) -> None:
        with contextlib.suppress(OSError):
            directories.empty_directory(self._folder)
            os.rmdir(self._folder)


def _read_capabilities() -> set[int]:
    lines = Path("/proc/self/status").read_text().splitlines()
    mask = next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff:"))
    return {number for number in linux.list_capabilities() if mask >> number & 1} if os.geteuid() == 0 else set()
