"""The place of one run: its namespaces, its /tmp and /proc, its source file. Made by the zygote before the fork.

Before, not in the child: every page that a child writes to is copied first, so what the zygote does costs half.
"""

import os

from sandbox.jail import linux
from sandbox.jail.child import SOURCE_FILE, UID, WORK, Job

_OF_A_RUN = linux.CLONE_NEWPID | linux.CLONE_NEWNS | linux.CLONE_NEWIPC
_NO_EXTRAS = linux.MS_NOSUID | linux.MS_NODEV


class Place:
    """Enters the place of a new run and leaves it again; the child forked in between stays.

    namespaces False: no namespaces can be had; runs share the directory `work`, which must be empty.
    """

    def __init__(self, work: str, *, namespaces: bool) -> None:
        self.work = work
        self._namespaces = namespaces
        self._home: dict[int, int] = {}
        if namespaces:
            names = {"pid": linux.CLONE_NEWPID, "mnt": linux.CLONE_NEWNS, "ipc": linux.CLONE_NEWIPC}
            self._home = {kind: os.open(f"/proc/self/ns/{name}", os.O_RDONLY) for name, kind in names.items()}
            self._oom_score = os.open("/proc/self/oom_score_adj", os.O_WRONLY)

    def enter(self, job: Job, source: int) -> int:
        """Make the place; `source` is the descriptor of the program's text. Returns the pid of the run's init, a
        process that only sleeps (0 without namespaces). Raises OSError; `leave` must be called all the same."""
        init = 0
        if self._namespaces:
            linux.unshare(_OF_A_RUN)
            init = linux.clone_stub()
            size = min(job.disk_mb, max(1, job.memory_mb // 2))  # its pages count as the run's memory
            options = f"size={size}m,nr_inodes={256 + 64 * size},mode=755,uid={UID},gid={UID}"
            linux.mount("tmpfs", WORK, "tmpfs", _NO_EXTRAS, options)
            # Belongs to the new pid namespace, not to ours: the kernel looks at the one of our next child.
            linux.mount("proc", "/proc", "proc", _NO_EXTRAS | linux.MS_NOEXEC, "subset=pid")
            linux.mount(None, "/proc", None, linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | _NO_EXTRAS)
            # Inherited by the child: when memory runs out it shall be the program, not the zygote.
            os.pwrite(self._oom_score, b"1000", 0)
        os.chdir(self.work)
        file = os.open(SOURCE_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        size = os.fstat(source).st_size
        while size > 0:
            size -= os.sendfile(file, source, os.fstat(file).st_size, size)
        if self._namespaces:
            os.fchown(file, UID, UID)
        os.close(file)
        return init

    def leave(self) -> None:
        """Go back to the zygote's own namespaces. Raises OSError."""
        for kind, descriptor in self._home.items():
            linux.setns(descriptor, kind)
        if self._namespaces:
            os.pwrite(self._oom_score, b"0", 0)
        os.chdir("/")
