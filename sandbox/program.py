"""The inputs and results of a run."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum


@dataclass(frozen=True, slots=True)
class Program:
    """The source text of an untrusted program, and its language."""

    source: str
    language: str = "python"


# Maximum of each limit: that of the kernel, or a value above any reasonable limit.
_MAX_LIMITS = {
    "wall_seconds": 10**5,
    "cpu_seconds": 10**5,
    "memory_mb": 2**24,
    "processes": 2**20,
    "output_kb": 2**22,
    "disk_mb": 2**24,
    "budget_seconds": 10**5,
}


class BadLimit(ValueError):
    """An invalid limit.

    name          the field of Limits
    requirement   the end of the message: the required range, and the actual value
    """

    def __init__(self, name: str, requirement: str) -> None:
        super().__init__(name, requirement)
        self.name, self.requirement = name, requirement

    def __str__(self) -> str:
        return f"Limits.{self.name} {self.requirement}"

    def with_field_names(self, fields: Mapping[str, str]) -> ValueError:
        """Return the error with the name that the limit has in a request. fields: limit -> field of the request."""
        return ValueError(f"field {fields[self.name]!r} {self.requirement}")


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one run; every run has all of them.

    wall_seconds     time since the start of the program, without waits for a processor that other load occupies
    cpu_seconds      CPU time of all processes and threads together; None for the same as wall_seconds
    memory_mb        memory of all processes together, in excess of an idle interpreter
    processes        number of processes and threads
    output_kb        size of stdout, and of stderr
    disk_mb          size of the run's private /tmp
    budget_seconds   wall time of all runs of one submission together; None for no bound
    """

    wall_seconds: float = 6.0
    cpu_seconds: float | None = None
    memory_mb: int = 512
    processes: int = 128
    output_kb: int = 16 * 1024
    disk_mb: int = 64
    budget_seconds: float | None = None

    def __post_init__(self) -> None:
        for name, maximum in _MAX_LIMITS.items():
            value = getattr(self, name)
            if value is None and name in ("cpu_seconds", "budget_seconds"):
                continue
            if not name.endswith("_seconds") and not hasattr(value, "__index__"):
                raise BadLimit(name, f"must be a whole number, not {value!r}")
            if not 0 < value <= maximum:
                raise BadLimit(name, f"must be above zero and at most {maximum:,}, not {value!r}")

    def with_time_factor(self, factor: float) -> "Limits":
        """Multiply all time limits; clamp them to their maximum."""
        times = {name: getattr(self, name) for name in _MAX_LIMITS if name.endswith("_seconds")}
        changed = {name: min(factor * value, _MAX_LIMITS[name]) for name, value in times.items() if value is not None}
        return replace(self, **changed)


_MAX_ARGUMENT_BYTES = 60_000  # maximum size of arguments and fetch as JSON
_MAX_FILES = 1000
_MAX_FOLDERS = 1000


@dataclass(frozen=True, slots=True)
class Invocation:
    """The inputs of a run.

    stdin       standard input
    arguments   the command line after the program's name
    files       files for its working directory: name -> content
    fetch       names of files to return from its working directory, if they exist
    """

    stdin: bytes = b""
    arguments: tuple[str, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    fetch: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (
            any("\0" in text for text in self.arguments)
            or len(json.dumps([self.arguments, self.fetch])) > _MAX_ARGUMENT_BYTES
        ):
            raise ValueError(
                f"arguments and fetch must have at most {_MAX_ARGUMENT_BYTES:,} bytes as JSON, and no NUL character"
            )
        if len(self.files) > _MAX_FILES:
            raise ValueError(f"files must have at most {_MAX_FILES} entries, not {len(self.files)}")
        for part, names in (("files", self.files), ("fetch", self.fetch)):
            for name in names:
                parts = name.split("/")
                if "" in parts or "." in parts or ".." in parts or "\0" in name or len(name.encode()) > 200:
                    raise ValueError(f"a name in {part} must be a short relative path without '..', not {name[:80]!r}")
        if len(folders := list_folders(self.files)) > _MAX_FOLDERS:
            raise ValueError(f"files must have at most {_MAX_FOLDERS} folders, not {len(folders)}")
        if conflicting := [name for name in folders if name in self.files or name.startswith("solution.")]:
            raise ValueError(f"{min(conflicting)!r} in files cannot be both a file and a folder")


def list_folders(names: Iterable[str]) -> set[str]:
    """Return all parent folders of these relative paths."""
    return {"/".join(name.split("/")[:depth]) for name in names for depth in range(1, name.count("/") + 1)}


class Outcome(Enum):
    """The way in which a run ended, whether its output is correct or not. Compare judge.Verdict, which judges it."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    OUTPUT_LIMIT = "output_limit"
    NOT_COMPILED = "not_compiled"
    VIOLATION = "violation"


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run.

    exit_code      the program's exit status, or minus the number of the signal that ended it
    cpu_seconds    user and system time of the whole process tree
    wall_seconds   time from the program's start to its end
    memory_mb      peak memory: with cgroup v1, or v2 since Linux 6.12, of the whole tree in excess of an idle
                   interpreter; otherwise the peak resident size of the largest process
    returned       the encoded return value of a call; None if there was no call, or it did not return
    files          the files named in Invocation.fetch: name -> content
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
        """stdout as text. Invalid UTF-8 becomes lone surrogates, which equal no expected output."""
        return self.stdout.decode("utf-8", "surrogateescape")
