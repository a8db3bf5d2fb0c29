"""The place of one run: its pid namespace, its /tmp and /proc, its source file. Made by the zygote before the fork,
taken away after the run.

Before, not in the child: every page that a child writes to is copied first, so what the zygote does costs half.
The mounts are made in the zygote's mount namespace, which holds one run at a time and which no run may change.
"""

import os
import signal

from sandbox.jail import files, linux, tree
from sandbox.jail.child import BOX, UID, WORK, Job

_PROC = f"{BOX}/proc"
_PLAIN = linux.MS_NOSUID | linux.MS_NODEV


def mounting_proc() -> linux.Prepared:
    """For the child, where there are namespaces: /proc shows that of the process that mounts it."""
    return linux.preparing_mount("proc", _PROC, "proc", _PLAIN | linux.MS_NOEXEC | linux.MS_RDONLY, "subset=pid")


class Place:
    """Makes the place of a run, and takes it away when all of the run's processes are gone.

    namespaces False: none can be had; runs share the directory `work`, which is emptied in between.
    To be made while this process is still dumpable: later its /proc entries are root's.
    """

    def __init__(self, work: str, *, namespaces: bool) -> None:
        self.work = work
        self._namespaces = namespaces
        if namespaces:
            self._home = os.open("/proc/self/ns/pid", os.O_RDONLY)
            self._oom_score = os.open("/proc/self/oom_score_adj", os.O_RDWR)
            self._own_score = os.pread(self._oom_score, 16, 0)

    def enter(self, job: Job, source: int, source_file: str) -> int:
        """Make the place; `source` is the descriptor of the program's text. Returns the pid of the run's init, a
        process that only sleeps (0 without namespaces). The next fork is the run's. Raises OSError."""
        init = 0
        if self._namespaces:
            linux.unshare(linux.CLONE_NEWPID)
            # It shares our memory, so that our handlers, should a program of our uid call one in it, would act on us.
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            init = linux.clone_stub()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
            size = min(job.disk_mb, max(1, job.memory_mb // 2))  # its pages count as the run's memory
            linux.mount("tmpfs", BOX, "tmpfs", _PLAIN, f"size={size}m,nr_inodes={256 + 64 * size},mode=755")
            os.mkdir(_PROC, 0o755)
            os.mkdir(WORK, 0o755)
            os.chown(WORK, UID, UID)
            self.expose()
        os.chdir(self.work)
        owner = UID if self._namespaces else None
        # From file to file, not through our memory.
        files.write(source_file, source, 0, os.fstat(source).st_size, owner)
        return init

    def expose(self) -> None:
        """The next fork goes first when memory runs out. Raises OSError."""
        if self._namespaces:
            os.pwrite(self._oom_score, b"1000", 0)  # inherited

    def step_back(self) -> None:
        """Right after the fork: it is the program that shall go when memory runs out, not us. Raises OSError."""
        if self._namespaces:
            os.pwrite(self._oom_score, self._own_score, 0)

    def used_bytes(self) -> int:
        """By files that the run has left; 0 without namespaces."""
        if not self._namespaces:
            return 0
        place = os.statvfs(BOX)
        return (place.f_blocks - place.f_bfree) * place.f_bsize

    def step_out(self) -> None:
        """Let the next fork be our own again. Raises OSError."""
        if self._namespaces:
            linux.setns(self._home, linux.CLONE_NEWPID)

    def take_away(self) -> None:
        """After the run's last process is gone. Raises OSError."""
        os.chdir("/")
        self.step_out()
        if self._namespaces:
            linux.unmount(BOX)  # and the /proc in it: each unmounting waits for all processors of the machine
        else:
            tree.empty(self.work)
