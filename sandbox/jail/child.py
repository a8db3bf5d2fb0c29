"""Turn a forked child into the program: drop all privileges, then run it."""

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

RUN_ROOT = "/box"  # where a run's own file systems are mounted; /tmp and /proc are links to them
WORK_DIRECTORY = f"{RUN_ROOT}/tmp"  # the program's private, empty, writable directory
VISIBLE_WORK = "/tmp"  # the name under which the program knows that directory
PACKAGES = "/packages"  # where packages from outside the standard library appear; on sys.path of programs
UID = 1000  # the uid of programs inside their user namespace
START_TIME_STRUCT = Struct("d")  # at the start of the shared page: time.monotonic() when the program began, 0 before
RESULT_FD = 3  # the only descriptor of a child besides its streams: for its result, or its executable
COMPILER_BROKEN = 70  # exit status of a compilation that failed for another reason than the program
COMPILER_KILLED = 71  # exit status of a compilation whose compiler got a SIGKILL
_DESCRIPTORS = 512  # the zygote may have this many open
_STARVATION_FACTOR, _STARVATION_SECONDS = 5, 10  # duration before a run can be starved: wall limits, minimum seconds
_COARSE_SECONDS = 0.01
_STARVED = 20  # a run with less than 1/20 of a processor is starved


# Bytes in a cgroup. Without a bound, page tables alone fill the memory, and the kernel then kills the zygote, too.
_ADDRESS_SPACE = 64 << 30


@dataclass(frozen=True, slots=True)
class RunParams:
    """The zygote's parameters of one run. Contains no user-controlled text: children are forked from the zygote, so its
    memory leaks into later runs.

    Descriptors accompany it: source, artifact, stdin, stdout and stderr, then those of RunDescriptors that the run
    needs.
    """

    op: str  # compile | run | call | evaluate | serve | examine
    language: str
    seed: int | None
    wall_seconds: float
    cpu_seconds: float
    memory_mb: int
    processes: int
    output_bytes: int
    disk_mb: int
    has_child_params: bool = False
    has_files: bool = False
    fetches_files: bool = False
    has_preamble: bool = False

    @property
    def has_result(self) -> bool:
        """Whether the run writes a result to a file of its own."""
        return self.op not in ("run", "serve")

    @property
    def address_space(self) -> int:
        """The bytes of address space without a cgroup, including the interpreter, its libraries and thread stacks."""
        return (self.memory_mb + 1024) << 20

    @property
    def max_seconds(self) -> float:
        """The upper bound of the run's duration, however busy the machine is."""
        return max(self._patience_seconds, _STARVED * max(self.wall_seconds, self.cpu_seconds))

    @property
    def _patience_seconds(self) -> float:
        return max(_STARVATION_FACTOR * self.wall_seconds, _STARVATION_SECONDS)

    def exceeds_cpu_limit(self, cpu_seconds: float) -> bool:
        """Return whether the CPU limit is exceeded, with an allowance for the kernel's coarse counting."""
        return cpu_seconds > self.cpu_seconds + _COARSE_SECONDS

    def is_starved(self, cpu_seconds: float, elapsed_seconds: float) -> bool:
        """Return whether the run has got too little processor time to go on waiting for it. A run that gets more
        continues until it ends or exceeds a limit: this distinguishes a slow machine from a slow program.
        """
        return elapsed_seconds > self._patience_seconds and cpu_seconds * _STARVED < elapsed_seconds

    def to_bytes(self) -> bytes:
        return json.dumps({name: getattr(self, name) for name in self.__slots__}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "RunParams":
        return cls(**json.loads(data))


@dataclass(frozen=True, slots=True)
class ChildParams:
    """The parameters that only the child of a run may hold. The child reads them from a file.

    entry_point         the function to call, or the tests to run
    arguments           the program's arguments, or the names that the tests use
    fetch_files         the names of the files that are fetched afterwards
    classes             those of the names that are classes
    cpu_seconds_budget  CPU time after which no further call starts in a shared process; 0: there is only one call
    """

    entry_point: str = ""
    arguments: tuple[str, ...] = ()
    fetch_files: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    cpu_seconds_budget: float = 0.0

    def to_bytes(self) -> bytes:
        return json.dumps(
            [self.entry_point, self.cpu_seconds_budget, self.arguments, self.fetch_files, self.classes]
        ).encode()

    @classmethod
    def read(cls, descriptor: int) -> "ChildParams":
        """Read the parameters from their file."""
        entry_point, max_seconds, *lists = json.loads(_content(descriptor))
        arguments, fetch, classes = map(tuple, lists)
        return cls(entry_point, arguments, fetch, classes, max_seconds)


_NONE = ChildParams()


@dataclass(frozen=True, slots=True)
class RunDescriptors:
    """Descriptors of a run besides its streams; -1 if absent.

    artifact       the compiled program
    result         receives the result of a compilation or a call
    child_params   the parameters of the child
    packed_files   files that the run finds
    fetched_files  receives the files that are fetched from the run
    preamble       compiled code that runs before the program
    """

    artifact: int
    result: int
    child_params: int
    packed_files: int
    fetched_files: int
    preamble: int


@dataclass(frozen=True, slots=True)
class ZygoteSetup:
    """The setup of the zygote, which its children inherit."""

    has_namespaces: bool
    mount_proc: linux.PreparedSyscall  # mounts a /proc that shows the child's own pid namespace
    enter_domain: linux.PreparedSyscall | None  # enters a domain of Landlock
    owner_uid: int | None  # without namespaces, the child's user and group; None: the zygote's
    has_cgroup_limits: bool  # memory and the number of processes are bounded by a cgroup
    counts_forks: bool  # the zygote bounds the number of processes
    languages: dict[str, ModuleType]


def prepare_syscalls(job: RunParams, setup: ZygoteSetup) -> list[linux.PreparedSyscall]:
    """Prepare, in the zygote, the system calls with which a child becomes the program."""
    # Otherwise kill(0, ...) would reach the zygote. Without a cgroup, a session, which is slower: the kernel divides
    # processors between sessions, and the zygote would wait for seconds behind a hundred busy processes in its own.
    prepared = [linux.prepare_setpgid() if setup.has_cgroup_limits else linux.prepare_setsid()]
    if setup.has_namespaces:
        prepared.append(setup.mount_proc)
        prepared += linux.prepare_setuid(UID) if os.getuid() == 0 else linux.prepare_capability_drop()
    else:
        prepared += (
            linux.prepare_capability_drop() if setup.owner_uid is None else linux.prepare_setuid(setup.owner_uid)
        )
        prepared.append(linux.prepare_prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL))
    prepared.append(linux.prepare_prctl(linux.PR_SET_DUMPABLE, 1))  # otherwise its /proc/self would belong to root
    cpu_seconds = int(job.cpu_seconds) + 1
    prepared.append(linux.prepare_rlimit(resource.RLIMIT_CPU, cpu_seconds, cpu_seconds + 1))
    prepared.append(linux.prepare_rlimit(resource.RLIMIT_FSIZE, job.output_bytes, job.output_bytes))
    if not setup.has_cgroup_limits and not setup.counts_forks:
        prepared.append(linux.prepare_rlimit(resource.RLIMIT_NPROC, job.processes, job.processes))
    address_space = _ADDRESS_SPACE if setup.has_cgroup_limits else job.address_space
    prepared.append(linux.prepare_rlimit(resource.RLIMIT_AS, address_space, address_space))
    return prepared


def exec_program(
    job: RunParams,
    language: ModuleType,
    fds: RunDescriptors,
    enter_domain: linux.PreparedSyscall | None,
    prepared: list[linux.PreparedSyscall],
    owner: int | None,
    ready: mmap,
) -> NoReturn:
    """Turn this freshly forked process, whose streams and directory are those of its run, into the program of `job`.

    enter_domain  see ZygoteSetup
    prepared      what `prepare_syscalls` returned
    owner         uid and gid of the program's files; None: the zygote's
    ready         a page shared with the zygote: the program's start time, or the error that prevented its start. It is
                  unmapped before the program starts, which could otherwise fake a failure of the sandbox
    """
    status = 1
    try:
        executable = job.op == "run" and language.EXECUTABLE
        program = b"" if executable else _content(fds.artifact)
        given = _content(fds.preamble) if fds.preamble >= 0 else b""
        instructions = ChildParams.read(fds.child_params) if fds.child_params >= 0 else _NONE
        if fds.packed_files >= 0:
            files.extract(fds.packed_files, owner)
        if enter_domain is not None:
            enter_domain()  # before its ruleset is closed
        kept = fds.artifact if executable else fds.result
        if kept >= 0:
            os.dup2(kept, RESULT_FD, inheritable=False)
        os.closerange(RESULT_FD if kept < 0 else RESULT_FD + 1, _DESCRIPTORS)
        for step in prepared:
            step()
        linux.destroy_key()
        START_TIME_STRUCT.pack_into(ready, 0, time.monotonic())
        ready.close()
        if job.op == "compile":
            status = _compile(language, program)
        elif job.op == "call" and instructions.cpu_seconds_budget:
            status = language.call_each(program, instructions.entry_point, RESULT_FD, instructions.cpu_seconds_budget)
        elif job.op == "call":
            status = language.call(program, instructions.entry_point, RESULT_FD)
        elif job.op == "evaluate":
            status = language.evaluate(program, given, RESULT_FD)
        elif job.op == "serve":
            status = language.serve(program, given, instructions.arguments)
        elif job.op == "examine":
            names, classes = instructions.arguments, instructions.classes
            status = language.run_tests(program, given, instructions.entry_point, names, classes, RESULT_FD)
        else:
            status = language.run(RESULT_FD if executable else program, instructions.arguments)
    except BaseException as error:
        if not ready.closed:  # for the zygote, which reports it as a failure of the sandbox
            message = f"{type(error).__name__}: {getattr(error, 'strerror', None)}".encode()[:1000]
            ready[START_TIME_STRUCT.size : START_TIME_STRUCT.size + len(message)] = message
    finally:
        os._exit(status)


def pack_fetched_files(job: RunParams, fds: RunDescriptors) -> NoReturn:
    """Pack the files to fetch from the directory of an ended run. Called in a fork."""
    status = 1
    try:
        files.collect(ChildParams.read(fds.child_params).fetch_files, job.output_bytes, fds.fetched_files)
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
        artifact = artifact[os.write(RESULT_FD, artifact) :]
    return 0
