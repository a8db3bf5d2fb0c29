"""The workspace of one run: its pid namespace, its /tmp and /proc, and its source file.

The zygote makes it before the fork and removes it after the run. Doing this in the child would cost twice as much,
since every page that a child writes to is copied. The mounts are made in the zygote's mount namespace, which holds one
run at a time and which no run may change.

Without namespaces, all runs of a zygote share a directory, which is emptied after each run. Only forks of the zygote
read it, since file names must not stay in memory that later runs inherit.
"""

import contextlib
import mmap
import os
import signal
import sys
from collections.abc import Callable

from sandbox.jail import directories, files, linux
from sandbox.jail.child import RUN_ROOT, UID, WORK_DIRECTORY, RunParams

_PROC = f"{RUN_ROOT}/proc"
_PLAIN = linux.MS_NOSUID | linux.MS_NODEV


def prepare_proc_mount() -> linux.PreparedSyscall:
    """Return the mount of /proc for the child, if there are namespaces: /proc shows the pid namespace of the process
    that mounts it."""
    return linux.prepare_mount("proc", _PROC, "proc", _PLAIN | linux.MS_NOEXEC | linux.MS_RDONLY, "subset=pid")


class Workspace:
    """Makes the workspace of each run, and removes it after the run's last process has ended.

    work        the working directory of runs
    proc        descriptor of /proc
    namespaces  False if there are none: the runs share `work`, which is emptied after each run

    Create it while this process is dumpable: later its /proc entries belong to root.
    """

    def __init__(self, work: str, proc: int, *, namespaces: bool) -> None:
        self.work = work
        self._proc = proc
        self._namespaces = namespaces
        self._oom_score = os.open("self/oom_score_adj", os.O_RDWR, dir_fd=proc)
        self._own_score = os.pread(self._oom_score, 16, 0)
        if namespaces:
            self._home = os.open("self/ns/pid", os.O_RDONLY, dir_fd=proc)
        else:
            self._directory = os.open(work, os.O_RDONLY | os.O_DIRECTORY)
            self._source_file = ""
            self._free = (0, 0)
            # For file names of runs: forks do not inherit this page.
            self._page = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            self._page.madvise(mmap.MADV_DONTFORK)

    def enter(self, job: RunParams, source: int, source_file: str) -> int:
        """Make the workspace of the next fork. Raises OSError.

        source is the descriptor of the program's text. Returns the pid of the run's init, a process that only sleeps
        (0 without namespaces).
        """
        init = 0
        if self._namespaces:
            linux.unshare(linux.CLONE_NEWPID)
            # It shares the zygote's memory: a program with the same uid could trigger a signal handler in it.
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            init = linux.clone_stub()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
            size = min(job.disk_mb, max(1, job.memory_mb // 2))  # its pages are charged to the run's memory
            linux.mount("tmpfs", RUN_ROOT, "tmpfs", _PLAIN, f"size={size}m,nr_inodes={_files(size)},mode=755")
            os.mkdir(_PROC, 0o755)
            os.mkdir(WORK_DIRECTORY, 0o755)
            os.chown(WORK_DIRECTORY, UID, UID)
        else:
            self._source_file = source_file
            self._free = self._free_now()
        self.maximize_oom_score()
        os.chdir(self.work)
        owner = UID if self._namespaces else None
        # Copied in the kernel, not through the zygote's memory.
        files.write(source_file, source, 0, os.fstat(source).st_size, owner)
        return init

    def maximize_oom_score(self) -> None:
        """Make the next fork the first process to be killed when memory runs out. Raises OSError."""
        os.pwrite(self._oom_score, b"1000", 0)  # the fork inherits it

    def restore_oom_score(self) -> None:
        """Call right after fork, so that the OOM killer picks the program rather than the zygote. Raises OSError."""
        os.pwrite(self._oom_score, self._own_score, 0)

    def used_bytes(self) -> int:
        """Return the bytes of the run's files; 0 without namespaces."""
        if not self._namespaces:
            return 0
        usage = os.statvfs(RUN_ROOT)
        return (usage.f_blocks - usage.f_bfree) * usage.f_bsize

    def exceeds_disk_limit(self, disk_mb: int) -> bool:
        """Return whether the run has exceeded its disk limit, where the file system does not enforce it."""
        if self._namespaces:
            return False
        n_bytes, n_files = disk_mb << 20, _files(disk_mb)
        before, now = self._free, self._free_now()
        if before[0] - now[0] <= n_bytes and before[1] - now[1] <= n_files:  # of all users of that file system
            return False
        return self._in_fork(lambda: _holds_more(self.work, n_bytes, n_files)) != 0

    def _free_now(self) -> tuple[int, int]:
        usage = os.fstatvfs(self._directory)
        return usage.f_bfree * usage.f_frsize, usage.f_ffree

    def _in_fork(self, look: Callable[[], bool]) -> int:
        """Call `look` in a fork; return its wait status, 0 if it returned False."""
        pid = linux.fork()
        if pid == 0:
            status = 1
            try:
                status = int(look())
            finally:
                os._exit(status)
        return os.waitpid(pid, 0)[1]

    def leave_pid_namespace(self) -> None:
        """Return to the zygote's pid namespace for the next fork. Raises OSError."""
        if self._namespaces:
            linux.setns(self._home, linux.CLONE_NEWPID)

    def remove(self) -> None:
        """Remove the workspace after the run's last process has ended. Raises OSError."""
        os.chdir("/")
        self.leave_pid_namespace()
        if self._namespaces:
            linux.unmount(RUN_ROOT)  # and the /proc in it: every unmount waits for all processors of the machine
            return
        with contextlib.suppress(OSError):
            os.unlink(self._source_file, dir_fd=self._directory)
        if not self._is_empty() and self._in_fork(self._empty) != 0:
            raise OSError(f"cannot empty {self.work}")

    def _is_empty(self) -> bool:
        """Return whether the directory holds nothing but itself and its parent."""
        os.lseek(self._directory, 0, os.SEEK_SET)
        n_entries = 0
        while length := linux.list_directory(self._directory, self._page):
            place = 0
            while place < length:
                place += int.from_bytes(self._page[place + 16 : place + 18], sys.byteorder)
                n_entries += 1
        return n_entries <= 2

    def _empty(self) -> bool:
        opened = os.open(self.work, directories.OPEN_DIRECTORY_FLAGS)
        directories.empty_directory_fd(opened, self._proc)
        return False


def _files(disk_mb: int) -> int:
    """Return the maximum number of a run's files."""
    return 256 + 64 * disk_mb


def _holds_more(folder: str, n_bytes: int, n_files: int) -> bool:
    """Return whether a folder exceeds so many bytes or files; others may change it meanwhile."""
    pending = [folder]
    while pending:
        try:
            entries = list(os.scandir(pending.pop()))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:  # it is too deep, or its mode is in the way: no honest run does that and fills the disk, too
            return True
        for entry in entries:
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                n_bytes -= status.st_blocks * 512
                n_files -= 1
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
        if n_bytes < 0 or n_files < 0:
            return True
    return False
