"""The zygote's responses to seccomp user notifications of programs' system calls.

Record locks are uncharged kernel memory, and on shared files could pass data to other runs. So a run may take a limited
number of them, on its own files. In a multi-threaded process, a lock is a no-op that reports success: another thread
could change the descriptor after the zygote's check, and the threads would share the lock anyway.

Without a cgroup, the zygote denies mappings that exceed the run's address space, as the kernel would. It records the
denial: a program that then fails has run out of memory. It also records whether the run sends SIGKILL; if not, a
SIGKILL that ends the program is external.
"""

import ctypes
import errno
import mmap
import os
import stat
import struct

from sandbox.jail.process_tree import ProcessTree
from sandbox.kernel import linux, system_calls

_MAX_LOCKS = 10_000  # maximum number of lock calls of a run, up to 400 bytes each; a SQLite transaction makes eight
_NOTIFICATION = struct.Struct("QI4xi12xi4xQ")  # id, pid, call number, first two arguments
_NOTIFICATION_BYTES = 80
_RESPONSE = struct.Struct("QqiI")  # id, value, error, flags
_RECEIVE, _SEND = 0xC0502100, 0xC0182101  # ioctl requests
_CONTINUE = 1  # response flag: the kernel executes the call
_F_GETLK = 5


class SeccompSupervisor:
    """Handler of the notifications of one run at a time.

    descriptor            result of seccomp.install: readable while a call is pending; -1 without notifications
    tree                  the processes of the run
    proc                  descriptor of /proc
    directory             runs may only lock files on the file system of this path; "" for any file system
    has_foreign_files     whether this file system also has files of others, which runs can only read
    deny_foreign_signals  whether to deny signals to processes outside the run
    """

    def __init__(
        self,
        descriptor: int,
        tree: ProcessTree,
        proc: int,
        directory: str = "",
        *,
        has_foreign_files: bool = False,
        deny_foreign_signals: bool = False,
    ) -> None:
        self.descriptor = descriptor
        self._tree = tree
        self._directory = directory
        self._has_foreign_files = has_foreign_files
        self._deny_foreign_signals = deny_foreign_signals
        self._proc = proc
        numbers = system_calls.NUMBERS.get(os.uname().machine, {})
        self._ioctl, self._fcntl, self._mmap = (numbers.get(name, -1) for name in ("ioctl", "fcntl", "mmap"))
        self._forks = {numbers.get(name, -1) for name in ("fork", "vfork", "clone")}
        # Forks do not inherit this page, so later runs cannot read the registers of earlier programs.
        self._page = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._page.madvise(mmap.MADV_DONTFORK)
        self._start = ctypes.addressof(ctypes.c_char.from_buffer(self._page))
        self._locks = self._threads = self._max_threads = self._max_bytes = 0
        self.has_used_sigkill = self.has_refused_fork = self.has_refused_memory = False

    def begin_run(self, processes: int, max_mapping_bytes: int) -> None:
        """Reset for the next run. processes: maximum number of its processes and threads."""
        self._locks, self._max_bytes = 0, max_mapping_bytes
        self.has_used_sigkill = self.has_refused_fork = self.has_refused_memory = False
        self._threads, self._max_threads = 1, processes

    def handle_notification(self) -> None:
        """Handle one notification. Has no effect if the calling process has exited."""
        ctypes.memset(self._start, 0, _NOTIFICATION_BYTES)
        try:
            self._call_ioctl(_RECEIVE)
            identity, pid, number, first, second = _NOTIFICATION.unpack_from(self._page)
            error, flags = 0, _CONTINUE
            if number == self._fcntl:
                error, flags = self._build_lock_response(pid, first, second & 0xFFFFFFFF)
            elif number == self._mmap:
                error, flags = self._build_memory_response(second)
            elif number in self._forks:
                error, flags = self._build_fork_response()
            else:
                self.has_used_sigkill = True
                if self._deny_foreign_signals and not self._tree.contains(first):
                    error, flags = errno.EPERM, 0
            _RESPONSE.pack_into(self._page, 0, identity, 0, -error, flags)
            self._call_ioctl(_SEND)
            self._tree.record_syscall_response()
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EINTR):
                raise

    def _build_fork_response(self) -> tuple[int, int]:
        """Return (error, flags) of the response to a fork or clone."""
        if self._threads >= self._max_threads:
            self._threads = self._tree.count_threads()  # some have exited since they were counted
        if self._threads >= self._max_threads:
            self.has_refused_fork = True
            return errno.EAGAIN, 0
        self._threads += 1
        return 0, _CONTINUE

    def _build_memory_response(self, n_bytes: int) -> tuple[int, int]:
        if n_bytes > self._max_bytes:
            self.has_refused_memory = True
            return errno.ENOMEM, 0
        return 0, _CONTINUE

    def _build_lock_response(self, pid: int, descriptor: int, command: int) -> tuple[int, int]:
        self._locks += 1
        if self._locks > _MAX_LOCKS or not self._is_in_workspace(pid, descriptor):
            return errno.ENOLCK, 0
        if self._is_single_threaded(pid):
            return 0, _CONTINUE
        return (errno.ENOLCK if command == _F_GETLK else 0), 0

    def _is_single_threaded(self, pid: int) -> bool:
        """Return whether a process has one thread. Only its threads can share descriptors (kernel/seccomp.py)."""
        try:
            return os.stat(f"{pid}/task", dir_fd=self._proc).st_nlink == 3  # two, and one for each thread's folder
        except OSError:
            return False

    def _is_in_workspace(self, pid: int, descriptor: int) -> bool:
        """Return whether an open file is in the run's workspace; other runs could see locks on other files."""
        try:
            if self._directory and _get_device(f"{pid}/fd/{descriptor}", self._proc) != _get_device(self._directory):
                return False
            return not self._has_foreign_files or self._is_writable(pid, descriptor)
        except OSError:  # the process has exited or closed the file
            return False

    def _is_writable(self, pid: int, descriptor: int) -> bool:
        fd_path = f"{pid}/fd/{descriptor}"
        link = os.stat(fd_path, dir_fd=self._proc, follow_symlinks=False)  # has the mode with which the file is open
        return bool(link.st_mode & stat.S_IWUSR) and stat.S_ISREG(os.stat(fd_path, dir_fd=self._proc).st_mode)

    def _call_ioctl(self, request: int) -> None:
        linux.make_system_call(self._ioctl, self.descriptor, request, self._start)


def _get_device(path: str, folder: int | None = None) -> int:
    return os.stat(path, dir_fd=folder).st_dev
