"""A cache of compilations, keyed by the program's content. A directory for all workers of a Sandbox also stores slow
compilations. Both have a bound in bytes; the cache evicts the least recently used entries, the directory the oldest.
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

# Minimum sizes bound the number of entries: each entry in memory has two descriptors, and each eviction from the
# directory scans all files.
_MAX_MEMORY_BYTES, _MIN_ENTRY_BYTES = 64 << 20, 2 << 20
_MAX_DIRECTORY_BYTES, _MIN_FILE_BYTES = 512 << 20, 256 << 10
_MIN_SHARED_SECONDS = 0.1  # minimum CPU time of a compilation that the directory stores
_MFD_EXEC = 0x10
_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """Descriptors of a program's source and of the compiler's output, the artifact."""

    source_fd: int
    artifact_fd: int


class SharedStore(Protocol):
    """A store of artifacts for several workers, by cache key."""

    def load_artifact(self, name: str) -> bytes | None: ...

    def store_artifact(self, name: str, content: bytes) -> None: ...


class SharedFolderStore:
    """A folder of artifacts, bounded in bytes; any number of processes may use it concurrently."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def load_artifact(self, name: str) -> bytes | None:
        with contextlib.suppress(OSError):
            return (self._path / name).read_bytes()
        return None

    def store_artifact(self, name: str, content: bytes) -> None:
        """Store an artifact unless the disk is full, and evict the oldest files above the size bound."""
        partial_path = self._path / f"{name}.{os.getpid()}.{threading.get_ident()}"
        try:
            partial_path.write_bytes(content)
            partial_path.rename(self._path / name)
        except OSError:  # such as a full disk; other workers compile the program again
            with contextlib.suppress(OSError):
                partial_path.unlink()
        with contextlib.suppress(OSError):
            _evict_oldest(self._path)


class CompileCache:
    """LRU cache of one worker's compilations. shared: store for all workers of a Sandbox; None for none."""

    def __init__(self, shared: SharedStore | None) -> None:
        self._shared = shared
        self._entries: OrderedDict[Program, CompiledProgram | RunResult] = OrderedDict()
        self._bytes = 0

    def find(self, program: Program) -> CompiledProgram | RunResult | None:
        """Return the compiled program, or the result of its failed compilation; None if absent."""
        if program in self._entries:
            self._entries.move_to_end(program)
            return self._entries[program]
        shared = self._shared.load_artifact(_compute_key(program)) if self._shared is not None else None
        return self._add_artifact(program, shared) if shared is not None else None

    def add(self, program: Program, result: RunResult, artifact: bytes) -> CompiledProgram:
        """Cache a successful compilation. result: the compiler's run."""
        if self._shared is not None and result.cpu_seconds > _MIN_SHARED_SECONDS:
            self._shared.store_artifact(_compute_key(program), artifact)
        return self._add_artifact(program, artifact)

    def add_failure(self, program: Program, result: RunResult) -> None:
        self._set_entry(program, result)

    def _add_artifact(self, program: Program, artifact: bytes) -> CompiledProgram:
        source = make_memfd(program.source.encode("utf-8", "surrogatepass"))
        compiled = CompiledProgram(source, make_memfd(artifact, sealed=True))
        self._set_entry(program, compiled)
        return compiled

    def _set_entry(self, program: Program, compiled: CompiledProgram | RunResult) -> None:
        self._evict(program)
        self._entries[program] = compiled
        self._bytes += _compute_size(program, compiled)
        while self._bytes > _MAX_MEMORY_BYTES and len(self._entries) > 1:
            self._evict(next(iter(self._entries)))

    def _evict(self, program: Program) -> None:
        compiled = self._entries.pop(program, None)
        if compiled is None:
            return
        self._bytes -= _compute_size(program, compiled)
        if isinstance(compiled, CompiledProgram):
            os.close(compiled.source_fd)
            os.close(compiled.artifact_fd)


def make_memfd(data: bytes = b"", *, sealed: bool = False) -> int:
    """Create a memfd and return its descriptor. sealed: whether to make it immutable, as for executables."""
    descriptor = _make_executable_memfd() if sealed else os.memfd_create("run")
    written = 0
    while written < len(data):
        written += os.pwrite(descriptor, data[written:] if written else data, written)
    if sealed:
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
        # Seals do not protect times and attributes, by which runs could pass data; without write permission, programs
        # cannot set them.
        os.fchmod(descriptor, 0o555)
    return descriptor


def _make_executable_memfd() -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create("run", flags | _MFD_EXEC)
    except OSError as error:
        if error.errno != errno.EINVAL:  # Linux before 6.3 neither supports nor needs the flag
            raise
        return os.memfd_create("run", flags)


def _evict_oldest(directory: Path) -> None:
    """Evict the oldest files above the size bound; other workers may do so concurrently."""
    files = []
    for entry in os.scandir(directory):
        with contextlib.suppress(FileNotFoundError):
            status = entry.stat(follow_symlinks=False)
            files.append((status.st_mtime, max(status.st_size, _MIN_FILE_BYTES), entry.path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= _MAX_DIRECTORY_BYTES:
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        total -= size


def _compute_size(program: Program, compiled: CompiledProgram | RunResult) -> int:
    """Return the memory of an entry, in bytes: the source in the key, and the files."""
    text = sys.getsizeof(program.source)
    if isinstance(compiled, RunResult):
        return max(text + len(compiled.stderr), _MIN_ENTRY_BYTES)
    files = os.fstat(compiled.source_fd).st_size + os.fstat(compiled.artifact_fd).st_size
    return max(text + files, _MIN_ENTRY_BYTES)


def _compute_key(program: Program) -> str:
    text = f"{program.language}\n{program.source}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()
