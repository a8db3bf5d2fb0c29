"""The workspace of one run: its pid namespace, its /tmp and /proc, and its source file.

The zygote creates it before the fork and removes it after the run; in the child, copy-on-write page faults would double
the cost. The mounts are in the zygote's mount namespace, which runs cannot change.

Without namespaces, all runs of a zygote use one directory, one after another. A fork of the zygote empties it after
each run, since file names must not remain in memory that later runs inherit.
"""

import contextlib
import mmap
import os
import signal
import sys
from collections.abc import Callable

from sandbox.jail import files
from sandbox.jail.child import RUN_ROOT, UID, WORK_DIRECTORY, RunParams
from sandbox.kernel import directories, linux

_PROC = f"{RUN_ROOT}/proc"
_MOUNT_FLAGS = linux.MS_NOSUID | linux.MS_NODEV


def prepare_proc_mount() -> linux.PreparedSyscall:
    """Prepare the child's mount of /proc, which shows the pid namespace of the calling process."""
    return linux.prepare_mount("proc", _PROC, "proc", _MOUNT_FLAGS | linux.MS_NOEXEC | linux.MS_RDONLY, "subset=pid")


class Workspace:
    """Manager of the workspaces of a zygote's runs, one at a time.

    work        path of the working directory of runs
    proc        descriptor of /proc
    namespaces  whether the zygote has namespaces; without them, all runs use `work` itself

    Construct it while this process is dumpable; later, root owns its /proc entries.
    """

    def __init__(self, work: str, proc: int, *, namespaces: bool) -> None:
        self.work = work
        self._proc = proc
        self._namespaces = namespaces
        self._oom_score = os.open("self/oom_score_adj", os.O_RDWR, dir_fd=proc)
        self._zygote_score = os.pread(self._oom_score, 16, 0)
        if namespaces:
            self._zygote_pid_namespace = os.open("self/ns/pid", os.O_RDONLY, dir_fd=proc)
        else:
            self._directory = os.open(work, os.O_RDONLY | os.O_DIRECTORY)
            self._source_file = ""
            self._free = (0, 0)
            # Buffer for file names of runs, which later forks do not inherit.
            self._page = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            self._page.madvise(mmap.MADV_DONTFORK)

    def create(self, params: RunParams, source: int, source_file: str) -> int:
        """Create the workspace of the next fork; return the pid of the run's init, 0 without namespaces.

        source       descriptor of the program's source
        source_file  name of the source file to write

        Raises OSError.
        """
        init = 0
        if self._namespaces:
            linux.unshare(linux.CLONE_NEWPID)
            # The stub shares the zygote's memory. A program with the same uid could trigger a signal handler in it.
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            init = linux.clone_stub()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
            size = min(params.disk_mb, max(1, params.memory_mb // 2))  # tmpfs pages count as the run's memory
            options = f"size={size}m,nr_inodes={_get_max_files(size)},mode=755"
            linux.mount("tmpfs", RUN_ROOT, "tmpfs", _MOUNT_FLAGS, options)
            os.mkdir(_PROC, 0o755)
            os.mkdir(WORK_DIRECTORY, 0o755)
            os.chown(WORK_DIRECTORY, UID, UID)
        else:
            self._source_file = source_file
            self._free = self._read_free_space()
        self.maximize_oom_score()
        os.chdir(self.work)
        owner = UID if self._namespaces else None
        # Uses sendfile, so the source never enters the zygote's memory.
        files.write_file(source_file, source, 0, os.fstat(source).st_size, owner)
        return init

    def maximize_oom_score(self) -> None:
        """Set the maximum OOM score, which the next fork inherits. Raises OSError."""
        os.pwrite(self._oom_score, b"1000", 0)

    def restore_oom_score(self) -> None:
        """Restore the zygote's own OOM score after a fork. Raises OSError."""
        os.pwrite(self._oom_score, self._zygote_score, 0)

    def count_used_bytes(self) -> int:
        """Return the total size of the run's files; 0 without namespaces."""
        if not self._namespaces:
            return 0
        usage = os.statvfs(RUN_ROOT)
        return (usage.f_blocks - usage.f_bfree) * usage.f_bsize

    def exceeds_disk_limit(self, disk_mb: int) -> bool:
        """Return whether the run exceeds its disk limit; False with namespaces, where the file system enforces it."""
        if self._namespaces:
            return False
        n_bytes, n_files = disk_mb << 20, _get_max_files(disk_mb)
        before, now = self._free, self._read_free_space()
        # Other users of the file system may also have used space.
        if before[0] - now[0] <= n_bytes and before[1] - now[1] <= n_files:
            return False
        return self._call_in_fork(lambda: _exceeds_size(self.work, n_bytes, n_files)) != 0

    def _read_free_space(self) -> tuple[int, int]:
        usage = os.fstatvfs(self._directory)
        return usage.f_bfree * usage.f_frsize, usage.f_ffree

    def _call_in_fork(self, function: Callable[[], bool]) -> int:
        """Call the function in a fork; return the wait status, 0 if the function returned False."""
        pid = linux.fork()
        if pid == 0:
            status = 1
            try:
                status = int(function())
            finally:
                os._exit(status)
        return os.waitpid(pid, 0)[1]

    def leave_pid_namespace(self) -> None:
        """Return to the zygote's pid namespace for the next fork. Raises OSError."""
        if self._namespaces:
            linux.setns(self._zygote_pid_namespace, linux.CLONE_NEWPID)

    def remove(self) -> None:
        """Remove the workspace after the exit of the run's last process. Raises OSError."""
        os.chdir("/")
        self.leave_pid_namespace()
        if self._namespaces:
            linux.unmount(RUN_ROOT)  # also unmounts /proc; each separate unmount would wait for all processors
            return
        with contextlib.suppress(OSError):
            os.unlink(self._source_file, dir_fd=self._directory)
        if not self._is_empty() and self._call_in_fork(self._remove_entries) != 0:
            raise OSError(f"cannot remove the files of a run from {self.work}")

    def _is_empty(self) -> bool:
        os.lseek(self._directory, 0, os.SEEK_SET)
        n_entries = 0
        while length := linux.list_directory(self._directory, self._page):
            offset = 0
            while offset < length:
                offset += int.from_bytes(self._page[offset + 16 : offset + 18], sys.byteorder)
                n_entries += 1
        return n_entries <= 2

    def _remove_entries(self) -> bool:
        directories.empty_directory_fd(os.open(self.work, directories.OPEN_DIRECTORY_FLAGS), self._proc)
        return False


def _get_max_files(disk_mb: int) -> int:
    return 256 + 64 * disk_mb


def _exceeds_size(folder: str, n_bytes: int, n_files: int) -> bool:
    """Return whether a folder exceeds this size or number of files. Programs may change it concurrently."""
    pending = [folder]
    while pending:
        try:
            entries = list(os.scandir(pending.pop()))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:  # too deep or unreadable: an attack, since much space has been used
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
