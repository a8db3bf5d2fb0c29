"""Calls of programs that the filter leaves to the zygote: it hears of each before it is done.

Record locks are kernel memory that no cgroup is charged for, and on a file that others have, too, they are messages: a
run gets only so many, on its own files. What a descriptor leads to can be changed by another thread between our look
and the kernel's, so a process with threads gets none: its threads would share the lock anyway, and it is told that it
has it. And it is noted who uses SIGKILL: a program that has done so may have died by its own hand, one that has not
and died of it was killed from outside.
"""

import ctypes
import errno
import mmap
import os
import struct

from sandbox.jail import linux, system_calls

_LOCKS = 10_000  # calls of one run, each good for two locks of some 200 bytes; a transaction of SQLite takes eight
_NOTICE = struct.Struct("QI4xi12xi4xi")  # id, pid, number, first two arguments; what else is there is not looked at
_NOTICE_BYTES = 80
_ANSWER = struct.Struct("QqiI")  # id, value, error, flags
_RECEIVE, _SEND = 0xC0502100, 0xC0182101  # requests of ioctl
_GO_ON = 1  # the kernel does the call
_F_GETLK = 5


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
            identity, pid, number, first, second = _NOTICE.unpack_from(self._page)
            error, flags = 0, _GO_ON
            if number == self._fcntl:
                error, flags = self._answer_for_lock(pid, first, second)
            else:
                self.has_used_sigkill = True
            _ANSWER.pack_into(self._page, 0, identity, 0, -error, flags)
            self._exchange(_SEND)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EINTR):
                raise

    def _answer_for_lock(self, pid: int, descriptor: int, command: int) -> tuple[int, int]:
        """Error and flags of the answer to a call for a lock."""
        self._locks += 1
        if self._locks > _LOCKS or not self._is_its_own(pid, descriptor):
            return errno.ENOLCK, 0
        if self._is_alone(pid):
            return 0, _GO_ON
        return (errno.ENOLCK if command == _F_GETLK else 0), 0

    def _is_alone(self, pid: int) -> bool:
        """Whether a thread is the only one of its process: then nobody but itself can change its descriptors, since
        seccomp.py lets nothing but threads share them."""
        try:
            return os.stat(f"{pid}/task", dir_fd=self._proc).st_nlink == 3  # itself, its parent and one folder below
        except OSError:
            return False

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
