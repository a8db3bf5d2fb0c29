"""What enters one execution and what leaves it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import SupportsIndex


@dataclass(frozen=True, slots=True)
class Program:
    """Source text of an untrusted program and the language it is written in."""

    source: str
    language: str = "python"


# Beyond these a kernel refuses its own limits, or nobody means it.
_MOST = {
    "wall_seconds": 10**5,
    "cpu_seconds": 10**5,
    "memory_mb": 2**24,
    "processes": 2**20,
    "output_kb": 2**22,
    "disk_mb": 2**24,
    "budget_seconds": 10**5,
}


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one run; every run has all of them.

    wall_seconds counts from the start of the program, not from the queue, and leaves out the time in which the
    machine gave the program no processor. cpu_seconds (default: the same number) counts all processes and
    threads of the run. memory_mb bounds what the run adds to an idle interpreter, all processes together.
    processes counts threads too. output_kb bounds stdout and stderr, each. disk_mb bounds the run's private
    /tmp. budget_seconds, if given, bounds the wall time of all runs of one submission together.
    """

    wall_seconds: float = 6.0
    cpu_seconds: float | None = None
    memory_mb: int = 512
    processes: int = 128
    output_kb: int = 16 * 1024
    disk_mb: int = 64
    budget_seconds: float | None = None

    def __post_init__(self) -> None:
        for name, most in _MOST.items():
            value = getattr(self, name)
            if value is None and name in ("cpu_seconds", "budget_seconds"):
                continue
            if not name.endswith("_seconds") and not isinstance(value, SupportsIndex):
                raise ValueError(f"Limits.{name} must be a whole number, not {value!r}")
            if not 0 < value <= most:
                raise ValueError(f"Limits.{name} must be above zero and at most {most:,}, not {value!r}")


_WORDS = 60_000
_FILES = 1000


@dataclass(frozen=True, slots=True)
class Invocation:
    """What a program is started with: standard input, arguments, and files in its working directory, name -> content.
    Of the files called `fetch`, those that are there when it ends come back with the result."""

    stdin: bytes = b""
    arguments: tuple[str, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    fetch: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if any("\0" in text for text in self.arguments) or len(json.dumps([self.arguments, self.fetch])) > _WORDS:
            raise ValueError(f"arguments and names to fetch must be less than {_WORDS} bytes of JSON, without NUL")
        if len(self.files) > _FILES:
            raise ValueError(f"a run may be given {_FILES} files, not {len(self.files)}")
        folders = {"/".join(name.split("/")[:depth]) for name in self.files for depth in range(1, name.count("/") + 1)}
        if both := [name for name in folders if name in self.files or name.startswith("solution.")]:
            raise ValueError(f"{min(both)!r} cannot be a file and a folder")
        for name in (*self.files, *self.fetch):
            parts = name.split("/")
            if "" in parts or "." in parts or ".." in parts or "\0" in name or len(name.encode()) > 200:
                raise ValueError(f"a file's name must be a short relative path without '..', not {name[:80]!r}")


class Outcome(Enum):
    """How a run ended. Whether it was right is another question: see judge.Verdict."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    OUTPUT_LIMIT = "output_limit"
    NOT_COMPILED = "not_compiled"
    VIOLATION = "violation"


@dataclass(frozen=True, slots=True)
class RunResult:
    """One finished run.

    exit_code is the program's exit status, minus the signal number when a signal ended it. cpu_seconds sums
    user and system time over the whole process tree. memory_mb is the peak: where the kernel keeps one for each run
    (cgroup v1; v2 since Linux 6.12) the charge that the whole tree added to an idle interpreter's, elsewhere the peak
    resident size of the largest process. returned is the encoded return value of a call, None where nothing was
    called or returned. files are those that were asked for and found: name -> content.
    """

    outcome: Outcome
    exit_code: int
    stdout: bytes
    stderr: bytes
    cpu_seconds: float
    wall_seconds: float
    memory_mb: float
    returned: bytes | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """stdout as text; bytes that are not UTF-8 become lone surrogates, which equal no expected output."""
        return self.stdout.decode("utf-8", "surrogateescape")
