"""The child of a run: a fork of the zygote that drops its privileges and becomes the program."""

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

from sandbox.jail import files
from sandbox.kernel import linux

RUN_ROOT = "/box"  # mount point of a run's own file systems; /tmp and /proc are links into it
WORK_DIRECTORY = f"{RUN_ROOT}/tmp"  # the program's private, initially empty, writable directory
VISIBLE_WORK = "/tmp"  # path of that directory in the program
PACKAGES = "/packages"  # packages from outside the standard library; on sys.path of programs
UID = 1000  # the uid of programs inside their user namespace
START_TIME_STRUCT = Struct("d")  # time.monotonic() at the program's start; 0 before
RESULT_FD = 3  # the only descriptor of a child besides its streams: its result file, or its executable
COMPILER_BROKEN = 70  # exit status of a compilation that failed for a reason other than the program
COMPILER_KILLED = 71  # exit status of a compilation whose compiler got a SIGKILL
MAX_DESCRIPTORS = 512  # RLIMIT_NOFILE of zygotes and programs
_CPU_CLOCK_SECONDS = 0.01  # resolution of the kernel's CPU accounting
_STARVED_FACTOR = 20  # a run with less than 1/20 of a processor is starved
# Grace period before a run counts as starved: the longer of 5 wall limits and 10 seconds.
_STARVATION_FACTOR, _STARVATION_SECONDS = 5, 10
# Bytes, for runs in a cgroup. Without a bound, page tables could fill the memory, and the OOM killer would also kill
# the zygote.
_MAX_ADDRESS_SPACE = 64 << 30


@dataclass(frozen=True, slots=True)
class RunParams:
    """The parameters of one run for the zygote. They contain no text from users or programs, since later runs inherit
    the zygote's memory.

    The judge sends them with descriptors: source, artifact, stdin, stdout and stderr, then the other RunDescriptors.
    """

    op: str  # compile | run | call | evaluate | serve | run_tests
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
        """True if the run writes a result file."""
        return self.op not in ("run", "serve")

    @property
    def address_space_bytes(self) -> int:
        """RLIMIT_AS without a cgroup, in bytes; it includes the interpreter, its libraries and thread stacks."""
        return (self.memory_mb + 1024) << 20

    @property
    def max_seconds(self) -> float:
        """The upper bound of the run's duration on a busy machine."""
        return max(self._starvation_seconds, _STARVED_FACTOR * max(self.wall_seconds, self.cpu_seconds))

    @property
    def _starvation_seconds(self) -> float:
        return max(_STARVATION_FACTOR * self.wall_seconds, _STARVATION_SECONDS)

    def exceeds_cpu_limit(self, cpu_seconds: float) -> bool:
        """Return whether the run exceeds its CPU limit, with an allowance for the kernel's coarse accounting."""
        return cpu_seconds > self.cpu_seconds + _CPU_CLOCK_SECONDS

    def is_starved(self, cpu_seconds: float, elapsed_seconds: float) -> bool:
        """Return whether the run has had less than a twentieth of a processor; False during a grace period."""
        return elapsed_seconds > self._starvation_seconds and cpu_seconds * _STARVED_FACTOR < elapsed_seconds

    def to_bytes(self) -> bytes:
        return json.dumps({name: getattr(self, name) for name in self.__slots__}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "RunParams":
        return cls(**json.loads(data))


@dataclass(frozen=True, slots=True)
class ChildParams:
    """The parameters of one run for its child alone. The child reads them from a file, which the zygote must not read.

    entry_point         name of the function to call, or source of the tests to run
    arguments           the program's arguments, or the names that the tests use
    fetch_files         names of the files to return after the run
    classes             the names of classes among `arguments`
    cpu_seconds_budget  CPU time after which no further call starts in a shared process; 0 for a single call
    """

    entry_point: str = ""
    arguments: tuple[str, ...] = ()
    fetch_files: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    cpu_seconds_budget: float = 0.0

    def to_bytes(self) -> bytes:
        values = [self.entry_point, self.cpu_seconds_budget, self.arguments, self.fetch_files, self.classes]
        return json.dumps(values).encode()

    @classmethod
    def read(cls, descriptor: int) -> "ChildParams":
        entry_point, max_seconds, *lists = json.loads(_read_content(descriptor))
        arguments, fetch, classes = map(tuple, lists)
        return cls(entry_point, arguments, fetch, classes, max_seconds)


_NO_CHILD_PARAMS = ChildParams()


@dataclass(frozen=True, slots=True)
class RunDescriptors:
    """Descriptors of a run besides its streams; -1 if absent.

    artifact       the compiled program
    result         output file for the result of a compilation or a call
    child_params   encoded ChildParams
    packed_files   files for the run's directory
    fetched_files  output file for the files to return after the run
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
    """The settings of a zygote that all its children share.

    mount_proc         call that mounts a /proc for the child's own pid namespace
    enter_domain       call that enters a Landlock domain; None without Landlock
    owner_uid          without namespaces, uid and gid of the child; None for the zygote's
    has_cgroup_limits  whether a cgroup bounds memory and the number of processes
    counts_forks       whether the zygote bounds the number of processes
    """

    has_namespaces: bool
    mount_proc: linux.PreparedSyscall
    enter_domain: linux.PreparedSyscall | None
    owner_uid: int | None
    has_cgroup_limits: bool
    counts_forks: bool
    languages: dict[str, ModuleType]


def prepare_syscalls(params: RunParams, setup: ZygoteSetup) -> list[linux.PreparedSyscall]:
    """Prepare, in the zygote, the system calls that a child makes before it becomes the program."""
    # Without a new process group, kill(0, ...) would reach the zygote. Without a cgroup, a hundred busy processes in
    # the zygote's session would delay the zygote by seconds, so the child starts a new session, which is slower.
    prepared = [linux.prepare_setpgid() if setup.has_cgroup_limits else linux.prepare_setsid()]
    if setup.has_namespaces:
        prepared.append(setup.mount_proc)
        prepared += linux.prepare_setuid(UID) if os.getuid() == 0 else linux.prepare_capability_drop()
    else:
        owner = setup.owner_uid
        prepared += linux.prepare_capability_drop() if owner is None else linux.prepare_setuid(owner)
        prepared.append(linux.prepare_prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL))
    prepared.append(linux.prepare_prctl(linux.PR_SET_DUMPABLE, 1))  # otherwise root would own its /proc/self
    cpu_seconds = int(params.cpu_seconds) + 1
    prepared.append(linux.prepare_rlimit(resource.RLIMIT_CPU, cpu_seconds, cpu_seconds + 1))
    prepared.append(linux.prepare_rlimit(resource.RLIMIT_FSIZE, params.output_bytes, params.output_bytes))
    if not setup.has_cgroup_limits and not setup.counts_forks:
        prepared.append(linux.prepare_rlimit(resource.RLIMIT_NPROC, params.processes, params.processes))
    address_space_bytes = _MAX_ADDRESS_SPACE if setup.has_cgroup_limits else params.address_space_bytes
    prepared.append(linux.prepare_rlimit(resource.RLIMIT_AS, address_space_bytes, address_space_bytes))
    return prepared


def exec_program(
    params: RunParams, setup: ZygoteSetup, fds: RunDescriptors, prepared: list[linux.PreparedSyscall], start_page: mmap
) -> NoReturn:
    """Turn this freshly forked process, in its run's directory and with its run's streams, into the program.

    prepared    the calls from `prepare_syscalls`
    start_page  a page shared with the zygote, for the program's start time (START_TIME_STRUCT), or the error that
                prevented its start. Unmapped before the start, since a program could forge such an error
    """
    status = 1
    try:
        language = setup.languages[params.language]
        is_executable = params.op == "run" and language.EXECUTABLE
        program = b"" if is_executable else _read_content(fds.artifact)
        preamble = _read_content(fds.preamble) if fds.preamble >= 0 else b""
        child_params = ChildParams.read(fds.child_params) if fds.child_params >= 0 else _NO_CHILD_PARAMS
        if fds.packed_files >= 0:
            files.extract(fds.packed_files, UID if setup.has_namespaces else None)
        if setup.enter_domain is not None:
            setup.enter_domain()  # before closerange closes the descriptor of the ruleset
        result_fd = fds.artifact if is_executable else fds.result
        if result_fd >= 0:
            os.dup2(result_fd, RESULT_FD, inheritable=False)
        os.closerange(RESULT_FD if result_fd < 0 else RESULT_FD + 1, MAX_DESCRIPTORS)
        for syscall in prepared:
            syscall()
        linux.destroy_key()
        START_TIME_STRUCT.pack_into(start_page, 0, time.monotonic())
        start_page.close()
        if params.op == "compile":
            status = _compile(language, program)
        elif params.op == "call" and child_params.cpu_seconds_budget:
            status = language.call_each(program, child_params.entry_point, RESULT_FD, child_params.cpu_seconds_budget)
        elif params.op == "call":
            status = language.call(program, child_params.entry_point, RESULT_FD)
        elif params.op == "evaluate":
            status = language.evaluate(program, preamble, RESULT_FD)
        elif params.op == "serve":
            status = language.serve(program, preamble, child_params.arguments)
        elif params.op == "run_tests":
            names, classes = child_params.arguments, child_params.classes
            status = language.run_tests(program, preamble, child_params.entry_point, names, classes, RESULT_FD)
        else:
            status = language.run(RESULT_FD if is_executable else program, child_params.arguments)
    except BaseException as error:
        if not start_page.closed:
            message = f"{type(error).__name__}: {getattr(error, 'strerror', None)}".encode()[:1000]
            start_page[START_TIME_STRUCT.size : START_TIME_STRUCT.size + len(message)] = message
    finally:
        os._exit(status)


def pack_fetched_files(params: RunParams, fds: RunDescriptors) -> NoReturn:
    """Pack the files to return, in the directory of an ended run, then exit. Call it in a fork."""
    status = 1
    try:
        files.collect(ChildParams.read(fds.child_params).fetch_files, params.output_bytes, fds.fetched_files)
        status = 0
    finally:
        os._exit(status)


def _read_content(descriptor: int) -> bytes:
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
