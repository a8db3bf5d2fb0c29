"""The files of one run: opened before the run, handed to its zygote, read after the run, and closed.

The program gets reopened descriptors, which share the file with the judge but not its flags and offset.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from sandbox.jail import files
from sandbox.jail.compile_cache import make_memfd
from sandbox.jail.run_spec import RunSpec

_ABSENT = -1  # stands for a missing descriptor


@dataclass(frozen=True, slots=True)
class StdioPipes:
    """The pipes of a program connected to another; closed here once its zygote has them."""

    stdin: int
    stdout: int


class RunFiles:
    """The files of one run; a context manager that closes them all.

    handed   the descriptors that go to the zygote, in the order in which it expects them (see child.RunParams)
    """

    def __init__(self, order: RunSpec, stdin: bytes | StdioPipes) -> None:
        job = order.run_params
        self._to_close: list[int] = []
        self._to_close_when_handed: list[int] = []
        self.handed: list[int] = []
        self._stdout = self._result = self._fetched = _ABSENT
        if isinstance(stdin, StdioPipes):
            self.handed += [stdin.stdin, stdin.stdout]
            self._to_close_when_handed += self.handed
        else:
            self._give(make_memfd(stdin), os.O_RDONLY)
            self._stdout = self._give(make_memfd(), os.O_RDWR)
        self._stderr = self._give(make_memfd(), os.O_RDWR)
        if job.has_result:
            self._result = self._give(make_memfd(), os.O_RDWR)
        if job.has_child_params:
            self._give(make_memfd(order.child_params.to_bytes()), os.O_RDONLY)
        if job.has_files:
            self._give(make_memfd(order.packed_files), os.O_RDONLY)
        if job.fetches_files:
            self._fetched = self._give(make_memfd(), os.O_RDWR)
        if job.has_preamble:
            self.handed.append(order.preamble_fd)

    def _give(self, descriptor: int, mode: int) -> int:
        """Reopen the file for the zygote, and return the judge's descriptor of it."""
        self._close_later(descriptor)
        self.handed.append(self._close_later(os.open(f"/proc/self/fd/{descriptor}", mode | os.O_CLOEXEC)))
        return descriptor

    def copy(self, descriptor: int) -> int:
        """Return a sealed copy of a file, for this run alone."""
        return self._close_later(make_memfd(read_whole(descriptor), sealed=True))

    def _close_later(self, descriptor: int) -> int:
        self._to_close.append(descriptor)
        return descriptor

    def close_pipe_ends(self) -> None:
        """Close the judge's ends of the pipes once the zygote has them; otherwise the peer would never get EOF."""
        while self._to_close_when_handed:
            os.close(self._to_close_when_handed.pop())

    def stdout(self) -> bytes:
        """Return what the program has written to stdout; nothing if that was a pipe."""
        return read_whole(self._stdout) if self._stdout != _ABSENT else b""

    def stderr(self) -> bytes:
        """Return what the program has written to stderr."""
        return read_whole(self._stderr)

    def result(self) -> bytes | None:
        """Return the result of a compilation or a call; None for other runs."""
        return read_whole(self._result) if self._result != _ABSENT else None

    def fetched_files(self) -> Mapping[str, bytes]:
        """Return the files that were fetched from the run's directory: name -> content."""
        return files.unpack(read_whole(self._fetched)) if self._fetched != _ABSENT else {}

    def __enter__(self) -> "RunFiles":
        return self

    def __exit__(self, *_: object) -> None:
        self.close_pipe_ends()
        for descriptor in self._to_close:
            os.close(descriptor)


def read_whole(descriptor: int) -> bytes:
    """Read a whole file, regardless of its offset."""
    size, data = os.fstat(descriptor).st_size, b""
    while len(data) < size:
        data += os.pread(descriptor, size - len(data), len(data))
    return data
