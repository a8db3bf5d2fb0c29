"""The workspace of one run: its pid namespace, its /tmp and /proc, and its source file.

The zygote makes it before the fork and removes it after the run. It is not made in the child, because every page that
a child writes to is copied first: in the zygote the same work costs half. The mounts are made in the zygote's mount
namespace, which holds one run at a time and which no run may change.
"""

import os
import signal

from sandbox.jail import directories, files, linux
from sandbox.jail.child import BOX, UID, WORK, Job

_PROC = f"{BOX}/proc"
_PLAIN = linux.MS_NOSUID | linux.MS_NODEV


def mounting_proc() -> linux.Prepared:
    """Return the mount of /proc for the child, if there are namespaces: /proc shows the pid namespace of the process
    that mounts it."""
    return linux.preparing_mount("proc", _PROC, "proc", _PLAIN | linux.MS_NOEXEC | linux.MS_RDONLY, "subset=pid")


class Workspace:
    """Makes the workspace of each run, and removes it when all of the run's processes are gone.

    work        the working directory of runs
    namespaces  False if there can be none: then the runs share `work`, which is emptied after each of them

    Create it while this process is still dumpable: later its /proc entries belong to root.
    """

    def __init__(self, work: str, *, namespaces: bool) -> None:
        self.work = work
        self._namespaces = namespaces
        if namespaces:
            self._home = os.open("/proc/self/ns/pid", os.O_RDONLY)
            self._oom_score = os.open("/proc/self/oom_score_adj", os.O_RDWR)
            self._own_score = os.pread(self._oom_score, 16, 0)

    def enter(self, job: Job, source: int, source_file: str) -> int:
        """Make the workspace; the next fork goes into it. Raises OSError.

        source is the descriptor of the program's text. Returns the pid of the run's init, a process that only sleeps
        (0 without namespaces).
        """
        init = 0
        if self._namespaces:
            linux.unshare(linux.CLONE_NEWPID)
            # It shares our memory: a signal handler that a program of our uid triggered in it would act on us.
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
        """Make the next fork the first process to be killed when memory runs out. Raises OSError."""
        if self._namespaces:
            os.pwrite(self._oom_score, b"1000", 0)  # the fork inherits it

    def step_back(self) -> None:
        """Call this right after the fork: when memory runs out, the program is to be killed, not us. Raises OSError."""
        if self._namespaces:
            os.pwrite(self._oom_score, self._own_score, 0)

    def used_bytes(self) -> int:
        """Return the bytes used by files that the run has left; 0 without namespaces."""
        if not self._namespaces:
            return 0
        usage = os.statvfs(BOX)
        return (usage.f_blocks - usage.f_bfree) * usage.f_bsize

    def step_out(self) -> None:
        """Leave the pid namespace of the run, so that the next fork is in our own again. Raises OSError."""
        if self._namespaces:
            linux.setns(self._home, linux.CLONE_NEWPID)

    def remove(self) -> None:
        """Remove the workspace after the run's last process has ended. Raises OSError."""
        os.chdir("/")
        self.step_out()
        if self._namespaces:
            linux.unmount(BOX)  # and the /proc in it: every unmount waits for all processors of the machine
        else:
            directories.empty(self.work)
