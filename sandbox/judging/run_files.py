"""The files of one run. The judge opens them, sends them to the zygote, and reads and closes them after the run.

The program gets reopened descriptors, so it shares the files with the judge, but not their flags and offsets.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from sandbox.jail import files
from sandbox.jail.compile_cache import make_memfd
from sandbox.jail.run_spec import RunSpec

_ABSENT = -1  # value in place of a missing descriptor


@dataclass(frozen=True, slots=True)
class StdioPipes:
    """A program's ends of the pipes to another program. RunFiles closes them."""

    stdin: int
    stdout: int


class RunFiles:
    """The files of one run; a context manager that closes them.

    zygote_fds   descriptors for the zygote, from stdin on, in the order stated by child.RunParams
    """

    def __init__(self, run_spec: RunSpec, stdin: bytes | StdioPipes) -> None:
        params = run_spec.run_params
        self._to_close: list[int] = []
        self._pipe_ends: list[int] = []
        self.zygote_fds: list[int] = []
        self._stdout = self._result = self._fetched = _ABSENT
        if isinstance(stdin, StdioPipes):
            self.zygote_fds += [stdin.stdin, stdin.stdout]
            self._pipe_ends += self.zygote_fds
        else:
            self._open_for_zygote(make_memfd(stdin), os.O_RDONLY)
            self._stdout = self._open_for_zygote(make_memfd(), os.O_RDWR)
        self._stderr = self._open_for_zygote(make_memfd(), os.O_RDWR)
        if params.has_result:
            self._result = self._open_for_zygote(make_memfd(), os.O_RDWR)
        if params.has_child_params:
            self._open_for_zygote(make_memfd(run_spec.child_params.to_bytes()), os.O_RDONLY)
        if params.has_files:
            self._open_for_zygote(make_memfd(run_spec.packed_files), os.O_RDONLY)
        if params.fetches_files:
            self._fetched = self._open_for_zygote(make_memfd(), os.O_RDWR)
        if params.has_preamble:
            self.zygote_fds.append(run_spec.preamble_fd)

    def _open_for_zygote(self, descriptor: int, mode: int) -> int:
        """Reopen the file for the zygote, and return `descriptor`, the judge's own."""
        self._close_later(descriptor)
        self.zygote_fds.append(self._close_later(os.open(f"/proc/self/fd/{descriptor}", mode | os.O_CLOEXEC)))
        return descriptor

    def copy_sealed(self, descriptor: int) -> int:
        """Return a sealed copy of a file, for this run only."""
        return self._close_later(make_memfd(read_whole(descriptor), sealed=True))

    def _close_later(self, descriptor: int) -> int:
        self._to_close.append(descriptor)
        return descriptor

    def close_pipe_ends(self) -> None:
        """Close the judge's copies of the program's pipe ends, so that the peer gets EOF at the program's exit."""
        while self._pipe_ends:
            os.close(self._pipe_ends.pop())

    def read_stdout(self) -> bytes:
        """Return the program's stdout; empty if it was a pipe."""
        return read_whole(self._stdout) if self._stdout != _ABSENT else b""

    def read_stderr(self) -> bytes:
        return read_whole(self._stderr)

    def read_result(self) -> bytes | None:
        """Return the result of a compilation or a call; None for other runs."""
        return read_whole(self._result) if self._result != _ABSENT else None

    def read_fetched_files(self) -> Mapping[str, bytes]:
        """Return the files from the run's directory: name -> content."""
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
