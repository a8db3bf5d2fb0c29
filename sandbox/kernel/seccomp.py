"""The seccomp filter: the allowed system calls, and conditions on their arguments.

The zygote installs it once, and every run inherits it. Calls reserved for the zygote, and for its children until they
become programs, must carry a key (syscall_key.py).

A filter reads call numbers and registers, never memory. For a call with arguments in memory, it ignores these arguments
or notifies the zygote, which decides (jail/seccomp_notify.py). With Landlock instead of namespaces (landlock.py), the
filter also denies accesses to the machine's files, processes and sockets that Landlock cannot deny.
"""

import ctypes
import errno
import os
import signal
import struct
from dataclasses import dataclass, replace

from sandbox.kernel import landlock, linux, system_calls
from sandbox.kernel.syscall_key import SyscallKey

_KILL, _ERRNO, _NOTIFY, _ALLOW = 0x80000000, 0x00050000, 0x7FC00000, 0x7FFF0000
_NO_OP = _ERRNO  # errno 0: report success without a call
_EPERM, _EINVAL, _ENOMEM, _ENOTTY = (_ERRNO | e for e in (errno.EPERM, errno.EINVAL, errno.ENOMEM, errno.ENOTTY))
_ENOSYS, _EOPNOTSUPP, _ENOPROTOOPT = (_ERRNO | e for e in (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOPROTOOPT))
_ALL_BITS = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class FilterSettings:
    """The settings of the filter.

    allow_memfd  whether to allow memfd_create; only a cgroup limits the memory of such files
    notify       whether the zygote decides some calls by notifications (jail/seccomp_notify.py); if not, the filter
                 denies them, or allows those that honest programs need
    abi          the Landlock version of the runs' domains, which requires `notify`; 0 without Landlock
    has_own_uid  whether the uid of programs differs from the caller's
    """

    allow_memfd: bool
    notify: bool = False
    abi: int = 0
    has_own_uid: bool = True


@dataclass(frozen=True, slots=True)
class _Condition:
    """A rule that matches if the low 32 bits of an argument, masked with `mask`, are in `values`."""

    argument: int
    values: tuple[int, ...]
    then: "_Rule"
    otherwise: "_Rule"
    mask: int = _ALL_BITS
    high: bool = False  # whether to test the high 32 bits instead


@dataclass(frozen=True, slots=True)
class _KeyedRule:
    """A rule that allows calls with the key."""

    otherwise: "_Rule"


_Rule = int | _Condition | _KeyedRule


def _deny_bits(argument: int, forbidden_bits: int, denial: "_Rule", otherwise: "_Rule" = _ALLOW) -> _Condition:
    return _Condition(argument, (0,), otherwise, denial, mask=forbidden_bits)


def _match_null(argument: int, then: "_Rule", otherwise: "_Rule") -> _Condition:
    return _Condition(argument, (0,), _Condition(argument, (0,), then, otherwise, high=True), otherwise)


_AF_UNIX = 1
_STREAM, _SEQPACKET, _SOCKET_TYPES = 1, 5, 0xF
_SOL_SOCKET = 1
_REUSEADDR, _SNDBUF, _RCVBUF, _KEEPALIVE, _LINGER, _REUSEPORT, _PASSCRED = 2, 7, 8, 9, 13, 15, 16
_SOCKET_TIMEOUTS = (20, 21, 66, 67)
_PROGRAM_PID = 2  # pid of the program in its namespace; 1 is the init
_NEGATIVE = 0x80000000  # sign bit of an int
# Signals that the kernel sends for violations of the filter or a limit. A program that sends one to itself could choose
# its verdict.
_VERDICT_SIGNALS = (signal.SIGSYS, signal.SIGXCPU, signal.SIGXFSZ)
_CSIGNAL, _CLONE_FILES, _CLONE_PTRACE, _CLONE_THREAD = 0xFF, 0x400, 0x2000, 0x10000
_NAMESPACES = (
    linux.CLONE_NEWNS
    | linux.CLONE_NEWCGROUP
    | linux.CLONE_NEWUTS
    | linux.CLONE_NEWIPC
    | linux.CLONE_NEWUSER
    | linux.CLONE_NEWPID
    | linux.CLONE_NEWNET
)
_F_DUPFD, _F_GETFD, _F_SETFD, _F_GETFL, _F_SETFL, _F_SETLK, _F_SETLKW = 0, 1, 2, 3, 4, 6, 7
_F_GETLK, _F_SETPIPE_SZ = 5, 1031
_F_DUPFD_CLOEXEC, _F_GETPIPE_SZ, _F_ADD_SEALS, _F_GET_SEALS = 1030, 1032, 1033, 1034
_O_ASYNC = 0x2000
_TCGETS, _TCGETS2, _TIOCGWINSZ, _FIONREAD, _FIONBIO = 0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421
_FIONCLEX, _FIOCLEX, _FICLONE, _FICLONERANGE = 0x5450, 0x5451, 0x40049409, 0x4020940D
_MAP_HUGETLB, _MFD_HUGETLB = 0x40000, 4
_GIGABYTES = 0xC0000000  # all zero in lengths below 1 GB
# normal random sequential dontneed free remove dontfork dofork hugepage nohugepage dontdump dodump wipeonfork
# keeponfork populate_read populate_write guard_install guard_remove: these affect only the process's own memory.
# Denied: merging pages with other processes, poisoning pages, and collapsing huge pages.
_ADVICE = (0, 1, 2, 4, 8, 9, 10, 11, 14, 15, 16, 17, 18, 19, 22, 23, 102, 103)
_IDLE_ADVICE = (3, 20, 21)  # willneed cold pageout: these affect the page cache of the machine
_ARCH_SET_AND_GET = (0x1001, 0x1002, 0x1003, 0x1004)  # ARCH_SET_GS to ARCH_GET_GS: the thread's own segment bases
_RLIMIT_CPU, _RLIMIT_FSIZE, _RLIMIT_CORE = 0, 1, 4
_FIXED_LIMITS = (_RLIMIT_CPU, _RLIMIT_FSIZE, _RLIMIT_CORE)  # the warden's RLIMIT_CORE disables core dump handlers
# pdeathsig get_pdeathsig get_dumpable dumpable get_keepcaps get_timing name get_name get_seccomp capbset_read get_tsc
# get_securebits timerslack get_timerslack get_child_subreaper no_new_privs get_no_new_privs thp_disable
# get_thp_disable get_speculation_ctrl. Denied: names of mappings (0x53564d41), which are uncharged kernel memory.
_PRCTL = (1, 2, 3, 4, 7, 13, 15, 16, 21, 23, 25, 27, 29, 30, 37, 38, 39, 41, 42, 52)

_UNLESS_FIXED_LIMIT = _Condition(1, _FIXED_LIMITS, _EPERM, _ALLOW)
# A no-op for the caller itself: with a lower priority, a thread could extend its time limit.
_OWN_PRIORITY = _Condition(1, (0,), _deny_bits(2, _NEGATIVE, _EPERM, _NO_OP), _EPERM)


def _make_conditional_rules(settings: FilterSettings) -> dict[str, _Rule]:
    notified = _NOTIFY if settings.notify else _EPERM
    forks = _NOTIFY if settings.notify else _ALLOW
    # Without a pid namespace or Landlock's restriction of signals, a run could signal processes outside it.
    others = _KeyedRule(_NOTIFY) if 0 < settings.abi < landlock.SIGNALS_ABI else _ALLOW

    def make_signal_rule(argument: int, kills: _Rule) -> _Condition:
        """Return the rule for a call that sends a signal. argument: index of the signal number."""
        return _Condition(argument, (signal.SIGKILL,), kills, _Condition(argument, _VERDICT_SIGNALS, _EPERM, others))

    # The filter notifies the zygote of each SIGKILL that the run sends, so any other SIGKILL is external. Without
    # notifications, the filter denies SIGKILL to the program's first process.
    kills = _KeyedRule(
        _NOTIFY if settings.notify else _Condition(0, (0, _PROGRAM_PID), _EPERM, _deny_bits(0, _NEGATIVE, _EPERM))
    )
    # Without a cgroup, the zygote limits address space, and records denied mappings.
    counts_memory = settings.notify and not settings.allow_memfd
    large = _Condition(1, (0,), _deny_bits(1, _GIGABYTES, _NOTIFY), _NOTIFY, high=True) if counts_memory else _ALLOW
    own_files = _Condition(0, (_AF_UNIX,), _ALLOW, _EPERM)
    without_flags = _Condition(5, (0,), _ALLOW, _EOPNOTSUPP)  # RWF_NOWAIT reveals the content of the page cache
    harmless = (_REUSEADDR, _KEEPALIVE, _LINGER, _REUSEPORT, _PASSCRED, *_SOCKET_TIMEOUTS)
    return {
        "socket": own_files,
        "socketpair": own_files,
        # Denied: packet filters, which are uncharged kernel memory.
        "setsockopt": _Condition(
            1,
            (_SOL_SOCKET,),
            _Condition(2, harmless, _ALLOW, _Condition(2, (_SNDBUF, _RCVBUF), _NO_OP, _ENOPROTOOPT)),
            _ENOPROTOOPT,
        ),
        "fork": forks,
        "vfork": forks,
        # CLONE_PARENT would create a child of the zygote. The filter does not see an exit signal, which the kernel
        # sends to the parent. If processes shared descriptors (CLONE_FILES), one could change them while the zygote
        # checks a lock of another (jail/seccomp_notify.py).
        "clone": _KeyedRule(
            _deny_bits(
                0,
                _NAMESPACES | linux.CLONE_PARENT | _CLONE_PTRACE,
                _EPERM,
                _Condition(
                    0,
                    (0, linux.SIGCHLD),
                    _Condition(0, (_CLONE_FILES,), _EPERM, forks, mask=_CLONE_FILES | _CLONE_THREAD),
                    _EPERM,
                    mask=_CSIGNAL,
                ),
            )
        ),
        "kill": make_signal_rule(1, kills),
        "tkill": make_signal_rule(1, notified),
        "tgkill": make_signal_rule(2, notified),
        "rt_sigqueueinfo": make_signal_rule(1, notified),
        "rt_tgsigqueueinfo": make_signal_rule(2, notified),
        "pidfd_send_signal": make_signal_rule(1, notified),
        # Record locks are uncharged kernel memory: the zygote counts them, and checks their files.
        "fcntl": _Condition(
            1,
            (_F_DUPFD, _F_DUPFD_CLOEXEC, _F_GETFD, _F_SETFD, _F_GETFL, _F_GETPIPE_SZ, _F_ADD_SEALS, _F_GET_SEALS),
            _ALLOW,
            _Condition(
                1,
                (_F_SETFL,),
                _deny_bits(2, _O_ASYNC, _EPERM),
                _Condition(
                    1, (_F_GETLK, _F_SETLK, _F_SETLKW), notified, _Condition(1, (_F_SETPIPE_SZ,), _EPERM, _EINVAL)
                ),
            ),
        ),
        "ioctl": _Condition(
            1,
            (_TCGETS, _TCGETS2, _TIOCGWINSZ, _FIONREAD, _FIONBIO, _FIONCLEX, _FIOCLEX),
            _ALLOW,
            _Condition(1, (_FICLONE, _FICLONERANGE), _EOPNOTSUPP, _KeyedRule(_ENOTTY)),
        ),
        "mmap": _deny_bits(3, _MAP_HUGETLB, _ENOMEM, large),  # the kernel does not charge huge pages to the run
        "memfd_create": _deny_bits(1, _MFD_HUGETLB, _EINVAL) if settings.allow_memfd else _EPERM,
        "madvise": _Condition(2, _ADVICE, _ALLOW, _Condition(2, _IDLE_ADVICE, _NO_OP, _EINVAL)),
        "preadv2": without_flags,
        "pwritev2": without_flags,
        "prctl": _Condition(0, _PRCTL, _ALLOW, _KeyedRule(_EINVAL)),
        "arch_prctl": _Condition(0, _ARCH_SET_AND_GET, _ALLOW, _EINVAL),
        "prlimit64": _match_null(2, _ALLOW, _KeyedRule(_Condition(0, (0,), _UNLESS_FIXED_LIMIT, _EPERM))),
        "setrlimit": _Condition(0, _FIXED_LIMITS, _EPERM, _ALLOW),
        "setpriority": _KeyedRule(_OWN_PRIORITY),
        "sched_setaffinity": _Condition(0, (0,), _NO_OP, _EPERM),
    }


# Names of the system calls with conditions.
CONDITIONAL = frozenset(_make_conditional_rules(FilterSettings(allow_memfd=True, notify=True)))


def _make_landlock_rules(settings: FilterSettings) -> dict[str, _Rule]:
    """Return the rules that differ for runs in Landlock domains instead of namespaces, by name."""
    usual = _make_conditional_rules(settings)

    def apply_rule(text: str, rule: _Rule) -> dict[str, _Rule]:
        return dict.fromkeys(text.split(), rule)

    rules = {
        # Landlock does not restrict connections to named sockets of other processes. So the filter allows only socket
        # pairs, other than datagram sockets, which can send to names.
        **apply_rule("socket bind connect listen accept accept4", _EPERM),
        "socketpair": _Condition(
            0, (_AF_UNIX,), _Condition(1, (_STREAM, _SEQPACKET), _ALLOW, _EPERM, mask=_SOCKET_TYPES), _EPERM
        ),
        # These calls reach descriptors and limits of processes outside the run.
        "pidfd_open": _KeyedRule(_ENOSYS),
        "prlimit64": _Condition(0, (0,), usual["prlimit64"], _KeyedRule(_EPERM)),
        **apply_rule("getxattr lgetxattr listxattr llistxattr", _EOPNOTSUPP),
        # With write access to a file or device, a process could set its times to now.
        **apply_rule("utime utimes futimesat utimensat", _EPERM),
    }
    if not settings.has_own_uid:  # programs with the caller's uid could change its files
        rules |= apply_rule("chmod fchmod fchmodat fchmodat2", _KeyedRule(_NO_OP))
        rules |= apply_rule("chown lchown fchown fchownat", _EPERM)
    if settings.abi < landlock.TRUNCATING_ABI:
        rules["truncate"] = _EPERM
    if settings.abi < landlock.SIGNALS_ABI:
        rules |= apply_rule("pidfd_send_signal tkill", _EPERM)
    return rules


def _make_rules(machine: str, settings: FilterSettings) -> dict[int, _Rule]:
    named: dict[str, _Rule] = dict.fromkeys(system_calls.ALLOWED, _ALLOW)
    named |= dict.fromkeys(system_calls.ZYGOTE_ONLY, _KeyedRule(_EPERM))
    named |= dict.fromkeys(system_calls.NO_OP, _NO_OP)
    named |= dict.fromkeys(system_calls.DENIED, _EPERM)
    named |= dict.fromkeys(system_calls.NOT_SUPPORTED, _EOPNOTSUPP)
    named |= dict.fromkeys(system_calls.KILLED, _KILL)
    named |= _make_conditional_rules(settings)
    if settings.abi:
        named |= _make_landlock_rules(settings)
    numbers = system_calls.NUMBERS[machine]
    return {numbers[name]: rule for name, rule in named.items() if name in numbers}


# Compilation to classic BPF.

_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000
_LOAD, _EQUAL, _AT_LEAST, _JUMP, _AND, _RETURN = 0x20, 0x15, 0x35, 0x05, 0x54, 0x06
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16
_MAX_JUMP = 255  # maximum jump of a conditional instruction, in instructions
_KEY_LOW, _KEY_HIGH = -1, -2  # operands that stand for the halves of the key
_Instruction = tuple[int, int, int, int]  # operation, jump if true, jump if false, operand


def _compile_rule(rule: _Rule) -> list[_Instruction]:
    """Compile a rule to position-independent code. Every path ends in a return."""
    if isinstance(rule, int):
        return [(_RETURN, 0, 0, rule)]
    if isinstance(rule, _KeyedRule):
        return [
            (_LOAD, 0, 0, _ARGUMENTS + 8 * 5),
            (_EQUAL, 0, 3, _KEY_LOW),
            (_LOAD, 0, 0, _ARGUMENTS + 8 * 5 + 4),
            (_EQUAL, 0, 1, _KEY_HIGH),
            (_RETURN, 0, 0, _ALLOW),
            *_compile_rule(rule.otherwise),
        ]
    code: list[_Instruction] = [(_LOAD, 0, 0, _ARGUMENTS + 8 * rule.argument + 4 * rule.high)]
    if rule.mask != _ALL_BITS:
        code.append((_AND, 0, 0, rule.mask))
    otherwise, then = _compile_rule(rule.otherwise), _compile_rule(rule.then)
    for index, value in enumerate(rule.values):
        code.append((_EQUAL, len(rule.values) - 1 - index + len(otherwise), 0, value))
    return code + otherwise + then


def _compile_decision_tree(ranges: list[tuple[int, _Rule]]) -> list[_Instruction]:
    """Compile a balanced decision tree on the call number. ranges: first number of each range, and its rule."""
    if len(ranges) == 1:
        return _compile_rule(ranges[0][1])
    middle = len(ranges) // 2
    below, above = _compile_decision_tree(ranges[:middle]), _compile_decision_tree(ranges[middle:])
    first = ranges[middle][0]
    if len(below) <= _MAX_JUMP:
        return [(_AT_LEAST, len(below), 0, first), *below, *above]
    return [(_AT_LEAST, 0, 1, first), (_JUMP, 0, 0, len(below)), *below, *above]


def _compile_rules(machine: str, settings: FilterSettings) -> list[_Instruction]:
    rules = _make_rules(machine, settings)
    ranges: list[tuple[int, _Rule]] = []
    for number in range(max(rules) + 2):
        rule = rules.get(number, _ENOSYS)
        if not ranges or ranges[-1][1] != rule:
            ranges.append((number, rule))
    return [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, _AUDIT_ARCH[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        *_compile_decision_tree([*ranges, (_X32_BIT, _KILL)]),
    ]


def build_filter(machine: str, settings: FilterSettings) -> bytes:
    """Return the filter as classic BPF, with zeros in place of the key. Raises KeyError for an unknown machine."""
    lines = _compile_rules(machine, settings)
    return b"".join(struct.pack("HBBI", *line[:3], max(0, line[3])) for line in lines)


_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_SECCOMP_SET_MODE_FILTER, _FLAG_NEW_LISTENER = 1, 8


def install(settings: FilterSettings) -> int:
    """Install the filter in this process and its later forks, and embed the key in linux.py.

    Returns the descriptor for notifications; -1 if disabled or not available (Linux before 5.5 or without
    CONFIG_CHECKPOINT_RESTORE, or an outer filter has a listener).

    Raises OSError without seccomp, or if Landlock requires notifications and they are not available. Raises KeyError
    for an unknown machine.
    """
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    key = SyscallKey()
    if settings.notify and _read_kernel_version() >= (5, 5):
        try:
            linux.get_thread_id_address()  # raises OSError if forks under the filter would fail
            listener = _install(key, settings)
        except OSError:  # an outer filter, such as a container's, may have a listener
            if settings.abi:
                raise
            listener = _install(key, replace(settings, notify=False))
    else:
        listener = _install(key, replace(settings, notify=False))
    linux.embed_syscall_key(key, forks=listener >= 0)
    return listener


def _install(key: SyscallKey, settings: FilterSettings) -> int:
    machine = os.uname().machine
    lines = _compile_rules(machine, settings)
    halves = [(8 * index + 4, -1 - line[3]) for index, line in enumerate(lines) if line[3] < 0]
    memory, start = key.embed(build_filter(machine, settings), halves)
    try:
        pointer = struct.pack("HxxxxxxP", len(lines), start)
        holder = ctypes.create_string_buffer(pointer, len(pointer))
        address = ctypes.addressof(holder)
        if settings.notify:
            number = system_calls.NUMBERS[machine]["seccomp"]
            return linux.make_system_call(number, _SECCOMP_SET_MODE_FILTER, _FLAG_NEW_LISTENER, address)
        linux.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, address)
        return -1
    finally:
        memory.close()


def _read_kernel_version() -> tuple[int, ...]:
    release = os.uname().release.split(".")
    return tuple(int("".join(filter(str.isdigit, part.split("-")[0]))) for part in release[:2])
