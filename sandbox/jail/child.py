"""What a forked child does to become a program: give up everything, then run it. Never returns."""

import json
import os
import resource
import signal
import sys
import time
from dataclasses import dataclass
from mmap import mmap
from struct import Struct
from traceback import format_exception_only
from types import ModuleType
from typing import NoReturn

from sandbox.jail import files, linux

BOX = "/box"  # where what a run has for itself is mounted: /tmp and /proc lead there
WORK = f"{BOX}/tmp"  # the program's private, empty, writable directory,
SHOWN = "/tmp"  # and the name under which it knows it
PACKAGES = "/packages"  # where packages from outside the standard library appear; on sys.path of programs
UID = 1000  # of programs, inside their user namespace
BEGAN = Struct("d")  # first in the shared page: time.monotonic() when the program began, 0 before
KEPT = 3  # descriptor that a child has beside its streams: for its result, or its executable
COMPILER_BROKEN = 70  # exit status of a compilation that says nothing about the program
COMPILER_KILLED = 71  # exit status of a compilation whose compiler was ended by SIGKILL
_DESCRIPTORS = 512  # that the zygote may have open


@dataclass(frozen=True, slots=True)
class Job:
    """One run, as far as the zygote must know of it: nothing that an author has written, since what passes through the
    zygote's memory, later runs could find in theirs.

    Beside it travel descriptors: source, artifact, stdin, stdout, stderr, and where they are needed the file for the
    result of compile or call, the instructions, packed files to find, and a file to pack files to fetch into.
    """

    op: str  # compile | run | call
    language: str
    seed: int | None
    wall_seconds: float
    cpu_seconds: float
    memory_mb: int
    processes: int
    output_bytes: int
    disk_mb: int
    instructions: bool = False
    files: bool = False
    fetch: bool = False

    def to_bytes(self) -> bytes:
        return json.dumps({name: getattr(self, name) for name in self.__slots__}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Job":
        return cls(**json.loads(data))


@dataclass(frozen=True, slots=True)
class Instructions:
    """What only the child of a run may know: the function to call, the program's arguments, and the names of files that
    are fetched afterwards. They lie in a file that the child itself reads."""

    entry_point: str = ""
    arguments: tuple[str, ...] = ()
    fetch: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        return json.dumps([self.entry_point, self.arguments, self.fetch]).encode()

    @classmethod
    def read(cls, descriptor: int) -> "Instructions":
        """From the file that holds them."""
        entry_point, arguments, fetch = json.loads(_content(descriptor))
        return cls(entry_point, tuple(arguments), tuple(fetch))


_NONE = Instructions()


@dataclass(frozen=True, slots=True)
class Handed:
    """Descriptors of a run beside its streams; -1: not there. result: for what a compilation or a call gives."""

    artifact: int
    result: int
    instructions: int
    packed: int
    fetched: int


@dataclass(frozen=True, slots=True)
class House:
    """What the zygote has, and so what its children can be given."""

    namespaces: bool
    mount_proc: linux.Prepared  # shows a child the /proc of its own pid namespace
    by_cgroup: bool  # memory and the number of processes are bounded by a cgroup
    languages: dict[str, ModuleType]


def steps(job: Job, house: House) -> list[linux.Prepared]:
    """What a child does on its way to becoming the program, made ready by the zygote."""
    its: list[linux.Prepared] = []
    if house.namespaces:
        its.append(house.mount_proc)
        its += linux.preparing_ids(UID) if os.getuid() == 0 else linux.preparing_no_capabilities()
    else:
        its.append(linux.preparing_prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL))
    its.append(linux.preparing_prctl(linux.PR_SET_DUMPABLE, 1))  # or its /proc/self would be root's
    cpu_seconds = int(job.cpu_seconds) + 1
    its.append(linux.preparing_limit(resource.RLIMIT_CPU, cpu_seconds, cpu_seconds + 1))
    its.append(linux.preparing_limit(resource.RLIMIT_FSIZE, job.output_bytes, job.output_bytes))
    if not house.by_cgroup:
        its.append(linux.preparing_limit(resource.RLIMIT_NPROC, job.processes, job.processes))
        # Address space, not memory: room for the interpreter, its libraries and the stacks of threads.
        address_space = (job.memory_mb + 1024) << 20
        its.append(linux.preparing_limit(resource.RLIMIT_AS, address_space, address_space))
    return its


def become(
    job: Job, language: ModuleType, handed: Handed, its: list[linux.Prepared], owner: int | None, ready: mmap
) -> NoReturn:
    """Turn this freshly forked process, whose streams and directory are those of its run, into the program of `job`.

    its: what `steps` gave. owner: of the files that it finds, None for our own. ready is shared with the zygote, which
    reads from it when the program began, or what kept it from that. It is unmapped before the program begins: a program
    that could write to it would turn its verdict into a failure of the sandbox.
    """
    status = 1
    try:
        executable = job.op == "run" and language.EXECUTABLE
        program = b"" if executable else _content(handed.artifact)
        instructions = Instructions.read(handed.instructions) if handed.instructions >= 0 else _NONE
        if handed.packed >= 0:
            files.place(handed.packed, owner)
        kept = handed.artifact if executable else handed.result
        if kept >= 0:
            os.dup2(kept, KEPT, inheritable=False)
        os.closerange(KEPT if kept < 0 else KEPT + 1, _DESCRIPTORS)
        os.setpgid(0, 0)  # or kill(0, ...) would reach the zygote; no session, which costs more
        for step in its:
            step()
        linux.throw_key_away()
        BEGAN.pack_into(ready, 0, time.monotonic())
        ready.close()
        if job.op == "compile":
            status = _compile(language, program)
        elif job.op == "call":
            status = language.call(program, instructions.entry_point, KEPT)
        else:
            status = language.run(KEPT if executable else program, instructions.arguments)
    except BaseException as error:
        if not ready.closed:  # for the zygote, which reports a failure of the sandbox and is to learn no more
            message = f"{type(error).__name__}: {getattr(error, 'strerror', None)}".encode()[:1000]
            ready[BEGAN.size : BEGAN.size + len(message)] = message
    finally:
        os._exit(status)


def collect(job: Job, handed: Handed) -> NoReturn:
    """Pack the files that are to be fetched from the directory of the run that has ended; in a fork of its own."""
    status = 1
    try:
        files.collect(Instructions.read(handed.instructions).fetch, job.output_bytes, handed.fetched)
        status = 0
    finally:
        os._exit(status)


def _content(descriptor: int) -> bytes:
    return os.pread(descriptor, os.lseek(descriptor, 0, os.SEEK_END), 0)


def _compile(language: ModuleType, source: bytes) -> int:
    path = f"{os.path.dirname(sys.argv[0])}/{language.SOURCE_FILE}"
    try:
        artifact: bytes = language.compile_source(source, path)
    except SystemExit:
        return 1
    except ChildProcessError:
        return COMPILER_KILLED
    except OSError as error:
        os.write(2, str(error).encode("utf-8", "replace"))
        return COMPILER_BROKEN
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        os.write(2, "".join(format_exception_only(error)).encode("utf-8", "replace"))
        return 1
    while artifact:
        artifact = artifact[os.write(KEPT, artifact) :]
    return 0
