"""A cache of compilations, keyed by the program's content: the latest in memory, slow ones also in a directory that all
workers of a Sandbox share. Both are bounded in bytes, and the oldest are removed first.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import sys
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sandbox.program import Program, RunResult

_IN_MEMORY_BYTES, _AT_LEAST_IN_MEMORY = 64 << 20, 2 << 20  # two descriptors each
_IN_DIRECTORY_BYTES, _AT_LEAST_IN_DIRECTORY = 512 << 20, 256 << 10  # eviction scans the directory
_LONG_SECONDS = 0.1
_MFD_EXEC = 0x10
_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """Descriptors of a program's text and of the compiler's result."""

    source_fd: int
    artifact_fd: int


class SharedStore(Protocol):
    """Compilations that workers share, by name."""

    def fetch(self, name: str) -> bytes | None: ...

    def store(self, name: str, content: bytes) -> None: ...


class SharedFolderStore:
    """A folder of shared compilations, bounded in bytes; any number of processes may use it at once."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def fetch(self, name: str) -> bytes | None:
        """Return the content stored under this name; None if absent."""
        with contextlib.suppress(OSError):
            return (self._path / name).read_bytes()
        return None

    def store(self, name: str, content: bytes) -> None:
        """Store the content if there is room, and remove the oldest files if all of them together are too large."""
        half = self._path / f"{name}.{os.getpid()}.{threading.get_ident()}"
        try:
            half.write_bytes(content)
            half.rename(self._path / name)
        except OSError:  # the disk is full, for example; the program is compiled again when needed
            with contextlib.suppress(OSError):
                half.unlink()
        with contextlib.suppress(OSError):
            _bound(self._path)


class CompileCache:
    """The compilations that one worker keeps. shared: those of all workers of a Sandbox, or None."""

    def __init__(self, shared: SharedStore | None) -> None:
        self._shared = shared
        self._kept: OrderedDict[Program, CompiledProgram | RunResult] = OrderedDict()
        self._bytes = 0

    def find(self, program: Program) -> CompiledProgram | RunResult | None:
        """Return the compiled program, or the result of its failed compilation; None if neither is known."""
        if program in self._kept:
            self._kept.move_to_end(program)
            return self._kept[program]
        shared = self._shared.fetch(_name(program)) if self._shared is not None else None
        return self._keep(program, shared) if shared is not None else None

    def add(self, program: Program, result: RunResult, artifact: bytes) -> CompiledProgram:
        """Cache a compilation. result: the result of the compiler's run."""
        if self._shared is not None and result.cpu_seconds > _LONG_SECONDS:
            self._shared.store(_name(program), artifact)
        return self._keep(program, artifact)

    def add_failure(self, program: Program, result: RunResult) -> RunResult:
        self._remember(program, result)
        return result

    def _keep(self, program: Program, artifact: bytes) -> CompiledProgram:
        source = make_memfd(program.source.encode("utf-8", "surrogatepass"))
        compiled = CompiledProgram(source, make_memfd(artifact, sealed=True))
        self._remember(program, compiled)
        return compiled

    def _remember(self, program: Program, compiled: CompiledProgram | RunResult) -> None:
        self._forget(program)
        self._kept[program] = compiled
        self._bytes += _size(program, compiled)
        while self._bytes > _IN_MEMORY_BYTES and len(self._kept) > 1:
            self._forget(next(iter(self._kept)))

    def _forget(self, program: Program) -> None:
        compiled = self._kept.pop(program, None)
        if compiled is None:
            return
        self._bytes -= _size(program, compiled)
        if isinstance(compiled, CompiledProgram):
            os.close(compiled.source_fd)
            os.close(compiled.artifact_fd)


def make_memfd(data: bytes = b"", *, sealed: bool = False) -> int:
    """Make a file in memory and return its descriptor. If sealed, it is immutable: programs can reach their own
    executables."""
    descriptor = _executable_memfd() if sealed else os.memfd_create("run")
    written = 0
    while written < len(data):
        written += os.pwrite(descriptor, data[written:] if written else data, written)
    if sealed:
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
        os.fchmod(descriptor, 0o555)  # seals protect the content; but times and attributes could carry messages
    return descriptor


def _executable_memfd() -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create("run", flags | _MFD_EXEC)
    except OSError as error:
        if error.errno != errno.EINVAL:  # Linux before 6.3 neither supports nor needs the flag
            raise
        return os.memfd_create("run", flags)


def _bound(directory: Path) -> None:
    """Remove the oldest files until the rest is small enough; other workers may do so at the same time."""
    files = []
    for entry in os.scandir(directory):
        with contextlib.suppress(FileNotFoundError):
            status = entry.stat(follow_symlinks=False)
            files.append((status.st_mtime, max(status.st_size, _AT_LEAST_IN_DIRECTORY), entry.path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= _IN_DIRECTORY_BYTES:
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        total -= size


def _size(program: Program, compiled: CompiledProgram | RunResult) -> int:
    """Return the bytes of memory that an entry takes. The text is kept twice: once as the key of the entry."""
    text = sys.getsizeof(program.source)
    if isinstance(compiled, RunResult):
        return max(text + len(compiled.stderr), _AT_LEAST_IN_MEMORY)
    files = os.fstat(compiled.source_fd).st_size + os.fstat(compiled.artifact_fd).st_size
    return max(text + files, _AT_LEAST_IN_MEMORY)


def _name(program: Program) -> str:
    text = f"{program.language}\n{program.source}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()
