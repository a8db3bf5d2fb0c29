"""What a forked child does to become a program: give up everything, then run it. Never returns."""

import json
import os
import random
import resource
import sys
from dataclasses import dataclass
from mmap import mmap
from traceback import format_exception_only
from types import ModuleType
from typing import NoReturn

from sandbox.jail import linux

WORK = "/tmp"  # the program's private, empty, writable directory
UID = 1000  # of programs, inside their user namespace
_SOURCE_FILE = "solution.py"


@dataclass(frozen=True, slots=True)
class Job:
    """One run, as the worker asks for it. The descriptors travel beside it, in the order of their fields."""

    op: str  # compile | run | call
    language: str
    entry_point: str
    seed: int | None
    wall_seconds: float
    cpu_seconds: float
    memory_mb: int
    processes: int
    output_bytes: int
    disk_mb: int

    def to_bytes(self) -> bytes:
        return json.dumps({name: getattr(self, name) for name in self.__slots__}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Job":
        return cls(**json.loads(data))


@dataclass(frozen=True, slots=True)
class House:
    """What the zygote has, and so what its children can be given."""

    namespaces: bool
    work: str  # WORK, or without namespaces a directory of the host that is emptied after each run
    memory_by_cgroup: bool
    languages: dict[str, ModuleType]


def become(job: Job, files: list[int], house: House, ready: mmap) -> NoReturn:
    """Turn this freshly forked process into the program of `job`.

    files: descriptors of the source and artifact, stdin, stdout, stderr, and for compile and call the one that
    takes the result. ready is shared with the zygote; its first byte is set when nothing but the program itself
    can still fail, and then it is unmapped here: a program that could clear it would turn its verdict into a
    failure of the sandbox.
    """
    status = 1
    try:
        source, artifact = _read_program(files[0])
        path = f"{house.work}/{_SOURCE_FILE}"
        _take_descriptors(files[1:])
        _isolate(job, house)
        _write(path, os.O_WRONLY | os.O_CREAT, source)
        _limit(job, house)
        _reseed(job.seed)
        language = house.languages[job.language]
        ready[0] = 1
        ready.close()
        if job.op == "compile":
            status = _compile(language, source, path)
        elif job.op == "call":
            status = language.call(artifact, path, job.entry_point, 3)
        else:
            status = language.run(artifact, path)
    except BaseException as error:
        if not ready.closed:  # for the zygote, which reports a failure of the sandbox
            message = f"{type(error).__name__}: {error}".encode()[:1000]
            ready[1 : 1 + len(message)] = message
    finally:
        os._exit(status)


def _read_program(descriptor: int) -> tuple[bytes, bytes]:
    """A file that holds the length of the source, the source and the artifact."""
    data = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    end = 8 + int.from_bytes(data[:8], "little")
    return data[8:end], data[end:]


def _take_descriptors(files: list[int]) -> None:
    """Make `files` 0, 1, 2 and so on, and close all others."""
    high = [os.dup2(descriptor, 100 + index, inheritable=False) for index, descriptor in enumerate(files)]
    for index, descriptor in enumerate(high):
        os.dup2(descriptor, index, inheritable=index < 3)
    linux.close_range(len(files))


def _isolate(job: Job, house: House) -> None:
    os.setsid()
    if not house.namespaces:
        os.chdir(house.work)
        linux.prctl(linux.PR_SET_DUMPABLE, 1)
        return
    linux.prctl(linux.PR_SET_DUMPABLE, 1)  # or /proc/self would be root's
    linux.unshare(linux.CLONE_NEWNS | linux.CLONE_NEWIPC)
    flags = linux.MS_NOSUID | linux.MS_NODEV
    size = min(job.disk_mb, max(1, job.memory_mb // 2))  # its pages count as the run's memory
    options = f"size={size}m,nr_inodes={256 + 64 * size},mode=1777"
    linux.mount("tmpfs", WORK, "tmpfs", flags, options)
    os.chdir(WORK)
    linux.mount("proc", "/proc", "proc", flags | linux.MS_NOEXEC, "subset=pid")
    # When memory runs out it shall be the program, not the zygote.
    _write("/proc/self/oom_score_adj", os.O_WRONLY, b"1000")
    linux.mount(None, "/proc", None, linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | flags)
    if os.getuid() == 0:
        os.setresgid(UID, UID, UID)
        os.setresuid(UID, UID, UID)
    linux.prctl(linux.PR_CAP_AMBIENT, linux.PR_CAP_AMBIENT_CLEAR_ALL)
    linux.set_capabilities(0)
    linux.prctl(linux.PR_SET_DUMPABLE, 1)  # again: changing the uid cleared it


def _write(path: str, flags: int, data: bytes) -> None:
    # Not open(): each library touched here costs every run some page faults.
    descriptor = os.open(path, flags, 0o644)
    while data:
        data = data[os.write(descriptor, data) :]
    os.close(descriptor)


def _limit(job: Job, house: House) -> None:
    cpu_seconds = int(job.cpu_seconds) + 1
    set_limit = resource.setrlimit
    set_limit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    set_limit(resource.RLIMIT_FSIZE, (job.output_bytes, job.output_bytes))
    set_limit(resource.RLIMIT_NPROC, (job.processes, job.processes))
    if not house.memory_by_cgroup:
        # Address space, not memory: room for the interpreter, its libraries and the stacks of threads.
        address_space = (job.memory_mb + 1024) << 20
        set_limit(resource.RLIMIT_AS, (address_space, address_space))


def _reseed(seed: int | None) -> None:
    """Children of one zygote would otherwise share its random state."""
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)


def _compile(language: ModuleType, source: bytes, path: str) -> int:
    try:
        artifact: bytes = language.compile_source(source, path)
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        os.write(2, "".join(format_exception_only(error)).encode("utf-8", "replace"))
        return 1
    while artifact:
        artifact = artifact[os.write(3, artifact) :]
    return 0
