"""What compilers have made, kept by content: the last few in memory, those that took long also in a directory that
all workers of a Sandbox share.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from sandbox.program import Program, RunResult

_IN_MEMORY, _IN_MEMORY_BYTES = 32, 256 << 20  # submissions, and all their artifacts
_IN_DIRECTORY = 256
_LONG_SECONDS = 0.1
_MFD_EXEC = 0x10
_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


@dataclass(frozen=True, slots=True)
class Compiled:
    """Descriptors of a program's text and of what the compiler made of it."""

    source: int
    artifact: int


class Compilations:
    """directory: where to share; "" for nowhere."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory) if directory else None
        self._kept: OrderedDict[Program, Compiled | RunResult] = OrderedDict()
        self._bytes = 0

    def find(self, program: Program) -> Compiled | RunResult | None:
        """The compiled program, or the result of the compilation that failed; None if it is not known."""
        if program in self._kept:
            self._kept.move_to_end(program)
            return self._kept[program]
        if self._directory is not None:
            with contextlib.suppress(OSError):
                return self._keep(program, (self._directory / _name(program)).read_bytes())
        return None

    def add(self, program: Program, result: RunResult, artifact: bytes) -> Compiled:
        if self._directory is not None and result.cpu_seconds > _LONG_SECONDS:
            with contextlib.suppress(OSError):  # full, say: it is compiled again where it is needed
                _share(self._directory, _name(program), artifact)
        return self._keep(program, artifact)

    def add_failure(self, program: Program, result: RunResult) -> RunResult:
        self._remember(program, result)
        return result

    def _keep(self, program: Program, artifact: bytes) -> Compiled:
        source = memfd(program.source.encode("utf-8", "surrogatepass"))
        compiled = Compiled(source, memfd(artifact, sealed=True))
        self._remember(program, compiled)
        return compiled

    def _remember(self, program: Program, compiled: Compiled | RunResult) -> None:
        self._kept[program] = compiled
        self._bytes += _size(compiled)
        while len(self._kept) > _IN_MEMORY or (self._bytes > _IN_MEMORY_BYTES and len(self._kept) > 1):
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= _size(oldest)
            if isinstance(oldest, Compiled):
                os.close(oldest.source)
                os.close(oldest.artifact)


def memfd(data: bytes = b"", *, sealed: bool = False) -> int:
    """A file in memory. Sealed, nobody can change it: executables are within the reach of the programs they become."""
    descriptor = _executable_memfd() if sealed else os.memfd_create("run")
    written = 0
    while written < len(data):
        written += os.pwrite(descriptor, data[written:] if written else data, written)
    if sealed:
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
        os.fchmod(descriptor, 0o555)  # seals protect the content; its times and attributes could carry messages
    return descriptor


def _executable_memfd() -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create("run", flags | _MFD_EXEC)
    except OSError as error:
        if error.errno != errno.EINVAL:  # Linux before 6.3 does not know the flag, nor need it
            raise
        return os.memfd_create("run", flags)


def _size(compiled: Compiled | RunResult) -> int:
    return os.fstat(compiled.artifact).st_size if isinstance(compiled, Compiled) else len(compiled.stderr)


def _share(directory: Path, name: str, artifact: bytes) -> None:
    half = directory / f"{name}.{os.getpid()}"
    half.write_bytes(artifact)
    half.rename(directory / name)
    there = list(directory.iterdir())
    if len(there) > _IN_DIRECTORY:
        for old in sorted(there, key=lambda path: path.stat().st_mtime)[: _IN_DIRECTORY // 2]:
            old.unlink(missing_ok=True)


def _name(program: Program) -> str:
    text = f"{program.language}\n{program.source}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()
