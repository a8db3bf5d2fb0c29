"""Calls of programs that the filter leaves to the zygote: it hears of each before it is done.

Record locks are kernel memory that no cgroup is charged for, and on a file that others have, too, they are messages: a
run gets only so many, on its own files. And it is noted who uses SIGKILL:
a program that has done so may have died by its own hand, one that has not and died of it was killed from outside.
"""

import ctypes
import errno
import mmap
import os
import struct

from sandbox.jail import linux, system_calls

_LOCKS = 10_000  # calls of one run, each good for two locks of some 200 bytes; a transaction of SQLite takes eight
_NOTICE = struct.Struct("QI4xi12xi")  # id, pid, number, first argument; what else is there is not looked at
_NOTICE_BYTES = 80
_ANSWER = struct.Struct("QqiI")  # id, value, error, flags
_RECEIVE, _SEND = 0xC0502100, 0xC0182101  # requests of ioctl
_GO_ON = 1  # the kernel does the call


class Asked:
    """Answers for one run at a time."""

    def __init__(self, descriptor: int, place: str = "") -> None:
        """descriptor: what seccomp.install has returned; readable when a program asks. -1 for none. place: on whose
        file system locks may be taken; "" for any."""
        self.descriptor = descriptor
        self._place = place
        self._proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)  # ours; a run's own is mounted over it
        numbers = system_calls.NUMBERS.get(os.uname().machine, {})
        self._ioctl, self._fcntl = numbers.get("ioctl", -1), numbers.get("fcntl", -1)
        # What programs have in their registers is not for later runs: a fork does not inherit this page.
        self._page = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._page.madvise(mmap.MADV_DONTFORK)
        self._start = ctypes.addressof(ctypes.c_char.from_buffer(self._page))
        self._locks = 0
        self.has_used_sigkill = False

    def begin(self) -> None:
        """Forget the last run."""
        self._locks, self.has_used_sigkill = 0, False

    def answer(self) -> None:
        """Answer one question. Nothing happens if who asked is gone meanwhile."""
        ctypes.memset(self._start, 0, _NOTICE_BYTES)
        try:
            self._exchange(_RECEIVE)
            identity, pid, number, first = _NOTICE.unpack_from(self._page)
            allowed = True
            if number == self._fcntl:
                self._locks += 1
                allowed = self._locks <= _LOCKS and self._is_its_own(pid, first)
            else:
                self.has_used_sigkill = True
            _ANSWER.pack_into(self._page, 0, identity, 0, 0 if allowed else -errno.ENOLCK, _GO_ON if allowed else 0)
            self._exchange(_SEND)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EINTR):
                raise

    def _is_its_own(self, pid: int, descriptor: int) -> bool:
        """Whether a program's open file lies in the place of its run: a lock on another would be heard elsewhere."""
        try:
            return not self._place or _device(f"{pid}/fd/{descriptor}", self._proc) == _device(self._place)
        except OSError:  # it is gone, or closed
            return False

    def _exchange(self, request: int) -> None:
        linux.system_call(self._ioctl, self.descriptor, request, self._start)


def _device(path: str, folder: int | None = None) -> int:
    """Number of the file system that a file lies on."""
    return os.stat(path, dir_fd=folder).st_dev
