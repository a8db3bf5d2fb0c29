"""The inputs and results of a run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum


@dataclass(frozen=True, slots=True)
class Program:
    """Source text of an untrusted program and the language it is written in."""

    source: str
    language: str = "python"


# Maximum of each limit: of the kernel, or above any reasonable value.
_MOST = {
    "wall_seconds": 10**5,
    "cpu_seconds": 10**5,
    "memory_mb": 2**24,
    "processes": 2**20,
    "output_kb": 2**22,
    "disk_mb": 2**24,
    "budget_seconds": 10**5,
}


class BadLimit(ValueError):
    """A limit that no run can have.

    name          the field of Limits
    requirement   the required range and the actual value
    """

    def __init__(self, name: str, requirement: str) -> None:
        super().__init__(name, requirement)
        self.name, self.requirement = name, requirement

    def __str__(self) -> str:
        return f"Limits.{self.name} {self.requirement}"

    def with_field_names(self, fields: Mapping[str, str]) -> ValueError:
        """Return the error in terms of a request's fields. fields: limit -> field."""
        return ValueError(f"field {fields[self.name]!r} {self.requirement}")


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one run; every run has all of them.

    wall_seconds     time from the start of the program; without waits in the queue, and without the time in which other
                     load kept the program from a processor
    cpu_seconds      CPU time of all processes and threads together; None: as much as wall_seconds
    memory_mb        memory that all processes together add to an idle interpreter
    processes        processes and threads
    output_kb        size of stdout, and of stderr
    disk_mb          size of the run's private /tmp
    budget_seconds   wall time of all runs of one submission together; None: no bound
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
            if not name.endswith("_seconds") and not hasattr(value, "__index__"):
                raise BadLimit(name, f"must be a whole number, not {value!r}")
            if not 0 < value <= most:
                raise BadLimit(name, f"must be above zero and at most {most:,}, not {value!r}")

    def with_time_factor(self, factor: float) -> "Limits":
        """Return the limits with all times multiplied, clamped to their maximum."""
        times = {name: getattr(self, name) for name in _MOST if name.endswith("_seconds")}
        changed = {name: min(factor * value, _MOST[name]) for name, value in times.items() if value is not None}
        return replace(self, **changed)


_ARGUMENT_BYTES = 60_000  # of JSON
_FILES = 1000


@dataclass(frozen=True, slots=True)
class Invocation:
    """The inputs of a run.

    stdin       standard input
    arguments   the command line after the program's name
    files       files in its working directory: name -> content
    fetch       names of files to return with the result, if they exist at the program's end
    """

    stdin: bytes = b""
    arguments: tuple[str, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    fetch: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (
            any("\0" in text for text in self.arguments)
            or len(json.dumps([self.arguments, self.fetch])) > _ARGUMENT_BYTES
        ):
            raise ValueError(
                f"arguments and names to fetch must be less than {_ARGUMENT_BYTES} bytes of JSON, without NUL"
            )
        if len(self.files) > _FILES:
            raise ValueError(f"files may hold {_FILES} files, not {len(self.files)}")
        folders = {"/".join(name.split("/")[:depth]) for name in self.files for depth in range(1, name.count("/") + 1)}
        if both := [name for name in folders if name in self.files or name.startswith("solution.")]:
            raise ValueError(f"{min(both)!r} in files cannot be a file and a folder")
        for part, names in (("files", self.files), ("fetch", self.fetch)):
            for name in names:
                parts = name.split("/")
                if "" in parts or "." in parts or ".." in parts or "\0" in name or len(name.encode()) > 200:
                    raise ValueError(f"a name in {part} must be a short relative path without '..', not {name[:80]!r}")


class Outcome(Enum):
    """The way a run ended. Its correctness is a separate question: see judge.Verdict."""

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

    exit_code      the program's exit status; minus the signal number if a signal ended it
    cpu_seconds    user and system time of the whole process tree
    wall_seconds   time from the program's start to its end
    memory_mb      peak memory: where the kernel keeps one for each run (cgroup v1; v2 since Linux 6.12), what the
                   whole tree added to the charge of an idle interpreter; elsewhere the peak resident size of the
                   largest process
    returned       the encoded return value of a call; None if nothing was called or returned
    files          the fetched files that exist: name -> content
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
        """stdout as text. Bytes that are not UTF-8 become lone surrogates, which equal no expected output."""
        return self.stdout.decode("utf-8", "surrogateescape")
