"""What a forked child does to become a program: give up everything, then run it. Never returns."""

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from mmap import mmap
from struct import Struct
from traceback import format_exception_only
from types import ModuleType
from typing import NoReturn

from sandbox.jail import linux

BOX = "/box"  # where what a run has for itself is mounted: /tmp and /proc lead there
WORK = f"{BOX}/tmp"  # the program's private, empty, writable directory,
SHOWN = "/tmp"  # and the name under which it knows it
UID = 1000  # of programs, inside their user namespace
BEGAN = Struct("d")  # first in the shared page: time.monotonic() when the program began, 0 before
KEPT = 3  # descriptor that a child has beside its streams: for its result, or its executable
COMPILER_BROKEN = 70  # exit status of a compilation that says nothing about the program
_DESCRIPTORS = 512  # that the zygote may have open


@dataclass(frozen=True, slots=True)
class Job:
    """One run, as the worker asks for it. Beside it travel descriptors: source, artifact, stdin, stdout, stderr, and
    where they are needed the file for the result of compile or call, packed files to find, a file to pack files to
    fetch into."""

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
    arguments: tuple[str, ...] = ()
    files: bool = False
    fetch: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        return json.dumps({name: getattr(self, name) for name in self.__slots__}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Job":
        return cls(**json.loads(data))


@dataclass(frozen=True, slots=True)
class House:
    """What the zygote has, and so what its children can be given."""

    namespaces: bool
    mount_proc: Callable[[], None]
    by_cgroup: bool  # memory and the number of processes are bounded by a cgroup
    languages: dict[str, ModuleType]


def become(job: Job, program: bytes, kept: int, house: House, ready: mmap) -> NoReturn:
    """Turn this freshly forked process, whose streams and directory are those of its run, into the program of `job`.

    program: the artifact, or to compile the source; unless the artifact is an executable. kept: descriptor of the
    file for what a compilation or a call gives, or of the executable, else -1. ready is shared with the zygote, which
    reads from it when the program began, or what kept it from that. It is unmapped before the program begins: a
    program that could write to it would turn its verdict into a failure of the sandbox.
    """
    status = 1
    try:
        if kept >= 0:
            os.dup2(kept, KEPT, inheritable=False)
        os.closerange(KEPT if kept < 0 else KEPT + 1, _DESCRIPTORS)
        os.setpgid(0, 0)  # or kill(0, ...) would reach the zygote; no session, which costs more
        if house.namespaces:
            house.mount_proc()
            _give_up_capabilities()
        else:
            linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        linux.prctl(linux.PR_SET_DUMPABLE, 1)  # or its /proc/self would be root's
        _limit(job, house)
        language = house.languages[job.language]
        BEGAN.pack_into(ready, 0, time.monotonic())
        ready.close()
        if job.op == "compile":
            status = _compile(language, program)
        elif job.op == "call":
            status = language.call(program, job.entry_point, KEPT)
        else:
            status = language.run(KEPT if language.EXECUTABLE else program, job.arguments)
    except BaseException as error:
        if not ready.closed:  # for the zygote, which reports a failure of the sandbox
            message = f"{type(error).__name__}: {error}".encode()[:1000]
            ready[BEGAN.size : BEGAN.size + len(message)] = message
    finally:
        os._exit(status)


def _give_up_capabilities() -> None:
    if os.getuid() == 0:
        os.setresgid(UID, UID, UID)
        os.setresuid(UID, UID, UID)  # from uid 0 to another: the kernel takes all capabilities away
    else:
        linux.prctl(linux.PR_CAP_AMBIENT, linux.PR_CAP_AMBIENT_CLEAR_ALL)
        linux.set_capabilities(0)


def _limit(job: Job, house: House) -> None:
    cpu_seconds = int(job.cpu_seconds) + 1
    set_limit = resource.setrlimit
    set_limit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    set_limit(resource.RLIMIT_FSIZE, (job.output_bytes, job.output_bytes))
    if not house.by_cgroup:
        set_limit(resource.RLIMIT_NPROC, (job.processes, job.processes))
        # Address space, not memory: room for the interpreter, its libraries and the stacks of threads.
        address_space = (job.memory_mb + 1024) << 20
        set_limit(resource.RLIMIT_AS, (address_space, address_space))


def _compile(language: ModuleType, source: bytes) -> int:
    path = f"{os.path.dirname(sys.argv[0])}/{language.SOURCE_FILE}"
    try:
        artifact: bytes = language.compile_source(source, path)
    except SystemExit:
        return 1
    except OSError as error:
        os.write(2, str(error).encode("utf-8", "replace"))
        return COMPILER_BROKEN
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        os.write(2, "".join(format_exception_only(error)).encode("utf-8", "replace"))
        return 1
    while artifact:
        artifact = artifact[os.write(KEPT, artifact) :]
    return 0
