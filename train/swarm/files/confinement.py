"""Take from the calling process what a parser does not need. Linux alone."""

import os
import resource
import struct
from time import process_time

from sandbox.jail import linux
from sandbox.jail.system_calls import NUMBERS

_CPU_SECONDS = 2  # for the file, of which at most one is already over: limits are whole seconds
_START_CPU_SECONDS = 20
_MEMORY_BYTES = 2**30
_SET_FILTER, _ALL_THREADS = 1, 1
_LOAD, _EQUAL, _SET_BITS, _RETURN = 0x20, 0x15, 0x45, 0x06
_KILL, _REFUSE, _ALLOW = 0x80000000, 0x00050001, 0x7FFF0000  # refused calls get EPERM
_NUMBER, _ARCH, _THIRD_ARGUMENT = 0, 4, 32  # places in what a filter sees
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_PROT_EXEC = 4
# What is left: open descriptors, memory that is not executed, locks, the time, and the end.
_ALLOWED = (
    "read write lseek close fstat newfstatat munmap mremap brk madvise futex rt_sigprocmask rt_sigaction rt_sigreturn "
    "sigaltstack clock_gettime gettimeofday getrandom sched_yield sched_getaffinity getpid gettid exit exit_group"
).split()
_ALLOWED_UNLESS_EXECUTABLE = ("mmap", "mprotect")


def apply_limits(max_written_bytes: int) -> None:
    """Limit time, memory and files, and cut the network off if the machine lets us. Called before heavy imports.

    A slow machine has more time to start in than a file has to be read.
    """
    linux.prctl(linux.PR_SET_PDEATHSIG, 9)
    try:
        linux.unshare(linux.CLONE_NEWUSER | linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS)
    except OSError:
        # Containers may forbid it. The filter of system calls allows no sockets either.
        if os.uname().machine not in NUMBERS:
            raise
    resource.setrlimit(resource.RLIMIT_CPU, (_START_CPU_SECONDS, _START_CPU_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (max_written_bytes, max_written_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def enter_seccomp() -> None:
    """Leave nothing but the open descriptors and the memory. Called when everything is imported.

    Raises OSError if the kernel has no filters of system calls.
    """
    max_seconds = min(int(process_time()) + _CPU_SECONDS, _START_CPU_SECONDS)
    resource.setrlimit(resource.RLIMIT_CPU, (max_seconds, max_seconds + 1))
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    machine = os.uname().machine
    if machine in NUMBERS:
        _install(_filter(machine))


def _filter(machine: str) -> list[bytes]:
    numbers = NUMBERS[machine]
    allowed = [numbers[name] for name in _ALLOWED if name in numbers]
    lines = [
        _line(_LOAD, 0, 0, _ARCH),
        _line(_EQUAL, 1, 0, _AUDIT_ARCH[machine]),
        _line(_RETURN, 0, 0, _KILL),
        _line(_LOAD, 0, 0, _NUMBER),
    ]
    for number in allowed:
        lines += [_line(_EQUAL, 0, 1, number), _line(_RETURN, 0, 0, _ALLOW)]
    for name in _ALLOWED_UNLESS_EXECUTABLE:
        lines += [
            _line(_EQUAL, 0, 4, numbers[name]),
            _line(_LOAD, 0, 0, _THIRD_ARGUMENT),
            _line(_SET_BITS, 0, 1, _PROT_EXEC),
            _line(_RETURN, 0, 0, _REFUSE),
            _line(_RETURN, 0, 0, _ALLOW),
        ]
    return [*lines, _line(_RETURN, 0, 0, _REFUSE)]


def _line(code: int, if_true: int, if_false: int, value: int) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


def _install(lines: list[bytes]) -> None:
    import ctypes

    program = ctypes.create_string_buffer(b"".join(lines))
    pointer = struct.pack("HxxxxxxP", len(lines), ctypes.addressof(program))
    holder = ctypes.create_string_buffer(pointer, len(pointer))
    number = NUMBERS[os.uname().machine]["seccomp"]
    # For all threads at once: libraries may have started some while they were imported.
    linux.system_call(number, _SET_FILTER, _ALL_THREADS, ctypes.addressof(holder))
