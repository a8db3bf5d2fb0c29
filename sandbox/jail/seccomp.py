"""The system calls that no honest program makes. Installed once in the zygote; every run inherits it.

A deny list, because capabilities, namespaces and the read-only root already refuse the rest: this takes away
the parts of the kernel with the worst record. What the zygote itself needs (mount, unshare and clone of the
other namespaces) stays in, and is refused to programs for want of capabilities.
"""

import ctypes
import errno
import os
import struct

from sandbox.jail import linux

# name: (x86-64, arm64). Killing tells an attack (sandbox_violation) from a program that merely fails.
_KILL = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "open_by_handle_at": (304, 265),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
}
_REFUSE = {  # EPERM
    "name_to_handle_at": (303, 264),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "personality": (135, 92),
    "syslog": (103, 116),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "vhangup": (153, 58),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
    "fanotify_init": (300, 262),
    "lookup_dcookie": (212, 18),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "nfsservctl": (180, 42),
    "memfd_secret": (447, 447),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "chroot": (161, 51),
    "sysfs": (139, None),
    # A thread that asks for less of the processor waits longer than the machine makes it, and such waits are not
    # counted as its time.
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274),
    "ioprio_set": (251, 30),
    "set_mempolicy_home_node": (450, 450),
    # Objects of System V and POSIX IPC outlive their process, and runs of one worker share an ipc namespace.
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    # The files of the library are the machine's own: who watches or locks them hears of runs elsewhere.
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "inotify_add_watch": (254, 27),
    "flock": (73, 32),
    "mq_open": (240, 180),
}
REFUSED = frozenset([*_KILL, *_REFUSE])  # names of what neither programs nor we ourselves ever need
_MISSING = {"clone3": (435, 435)}  # ENOSYS: its flags lie in memory, out of a filter's sight; libc falls back
_CLONE, _UNSHARE = (56, 220), (272, 97)
_SETPRIORITY, _SCHED_SETAFFINITY = (141, 140), (203, 122)
_SOCKET, _SOCKETPAIR = (41, 198), (53, 199)
_MEMFD_CREATE = (319, 279)
_AF_UNIX = 1

_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_KILL_PROCESS, _ERRNO, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16
_NEGATIVE = 0x80000000  # an int's, read as unsigned
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2


def program(machine: str, *, memfds: bool) -> bytes:
    """The filter as classic BPF. `memfds` False also refuses memfd_create, whose memory only a cgroup sees.

    Raises KeyError for a machine other than x86_64 and aarch64.
    """
    column = list(_AUDIT_ARCH).index(machine)
    code: list[tuple[int, int, int, int]] = [  # (operation, jump if true, jump if false, operand)
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, _AUDIT_ARCH[machine]),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32_BIT),
        (_RETURN, 0, 0, _KILL_PROCESS),
    ]

    def refuse(numbers: tuple[int | None, ...], answer: int) -> None:
        number = numbers[column]
        if number is not None:
            code.extend([(_EQUAL, 0, 1, number), (_RETURN, 0, 0, answer)])

    def decide(
        numbers: tuple[int, int], reasons: list[tuple[int, int, int, bool]], refused: int, otherwise: int
    ) -> None:
        """Answer `refused` if one of the reasons holds: (argument, test, operand, what the test must say)."""
        checks: list[tuple[int, int, int, int]] = []
        for index, (argument, test, operand, wanted) in enumerate(reasons):
            away = 2 * (len(reasons) - index) - 1  # from this test to the refusal, over the other answer
            hit, miss = (away, 0) if wanted else (0, away)
            checks += [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument), (test, hit, miss, operand)]
        answers = [(_RETURN, 0, 0, otherwise), (_RETURN, 0, 0, refused)]
        code.append((_EQUAL, 0, len(checks + answers), numbers[column]))
        code.extend(checks + answers)

    for numbers in _KILL.values():
        refuse(numbers, _KILL_PROCESS)
    for numbers in _REFUSE.values():
        refuse(numbers, _ERRNO | errno.EPERM)
    for numbers in _MISSING.values():
        refuse(numbers, _ERRNO | errno.ENOSYS)
    if not memfds:
        refuse(_MEMFD_CREATE, _ERRNO | errno.EPERM)
    for call in (_SOCKET, _SOCKETPAIR):
        decide(call, [(0, _EQUAL, _AF_UNIX, False)], _ERRNO | errno.EPERM, _ALLOW)
    for call in (_CLONE, _UNSHARE):
        # A new user namespace brings all capabilities within; a sibling would be the zygote's child, not the run's.
        flags = linux.CLONE_NEWUSER | linux.CLONE_PARENT
        decide(call, [(0, _ANY_BIT, flags, True)], _ERRNO | errno.EPERM, _ALLOW)
    # Of oneself, and not for more: done without doing anything, for the reason above.
    itself = (_EQUAL, 0, False)
    decide(_SETPRIORITY, [(1, *itself), (2, _AT_LEAST, _NEGATIVE, True)], _ERRNO | errno.EPERM, _ERRNO)
    decide(_SCHED_SETAFFINITY, [(0, *itself)], _ERRNO | errno.EPERM, _ERRNO)
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("HBBI", *line) for line in code)


def install(*, memfds: bool) -> None:
    """Put the filter on the calling process and all it forks. Raises OSError where the kernel has no seccomp."""
    code = program(os.uname().machine, memfds=memfds)
    buffer = ctypes.create_string_buffer(code, len(code))
    pointer = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    holder = ctypes.create_string_buffer(pointer, len(pointer))
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    linux.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(holder))
