"""The system calls that the standard library does not have, each as one function that raises OSError.

All go through ctypes.PyDLL, which keeps the interpreter lock: the callers are single-threaded and some of these
calls return in a forked child, where taking the lock anew would hang.
"""

import ctypes
import os
import struct

CLONE_VM = 0x00000100
CLONE_PARENT = 0x00008000
CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 0x1, 0x2, 0x4, 0x8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 0x20, 0x1000, 0x4000, 0x40000
MNT_DETACH = 0x2

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_READ = 23
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
PR_CAP_AMBIENT_CLEAR_ALL = 4

WAIT_ALL = 0x40000000  # __WALL: also for children that announce their end by another signal than SIGCHLD
SIGCHLD = 17

_X86 = os.uname().machine == "x86_64"
_SYS_CLONE = 56 if _X86 else 220
_SYS_PIVOT_ROOT = 155 if _X86 else 41
_SYS_CAPSET = 126 if _X86 else 91
_SYS_MOUNT_SETATTR = 442
_CAPABILITY_VERSION_3 = 0x20080522
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_M_TRIM_THRESHOLD = -1

_libc = ctypes.PyDLL(None, use_errno=True)
_libc.clone.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
_fork = getattr(_libc, "_Fork", None)  # glibc >= 2.34: fork without at-fork handlers, half the price


def _check(returned: int, what: str) -> int:
    if returned < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return returned


def give_freed_memory_back() -> None:
    """Have libc give freed memory back to the kernel, as it does at first: once it has seen large blocks go, it keeps
    up to 64 MB for the next ones."""
    mallopt = getattr(_libc, "mallopt", None)
    if mallopt is not None:  # glibc's
        mallopt(_M_TRIM_THRESHOLD, 128 << 10)  # to set it is to keep it from moving


def fork() -> int:
    """Fork the calling, single-threaded process without running Python's at-fork handlers."""
    return _check(_fork(), "fork") if _fork is not None else os.fork()


def clone(flags: int) -> int:
    """Fork into the new namespaces that `flags` name. Returns 0 in the child, its pid in the caller."""
    return _check(_libc.syscall(_SYS_CLONE, ctypes.c_ulong(flags | SIGCHLD), 0, 0, 0, 0), "clone")


_stub_stack = ctypes.create_string_buffer(16384)
_pause = ctypes.cast(_libc.pause, ctypes.c_void_p)


def clone_stub() -> int:
    """Start a process that shares our memory and sleeps until it is killed; returns its pid.

    It runs libc's pause() on a stack of its own, so there can be one at a time. No page table is copied: this
    is ten times cheaper than a fork.
    """
    top = (ctypes.addressof(_stub_stack) + len(_stub_stack)) & ~15
    return _check(_libc.clone(_pause, top, CLONE_VM | SIGCHLD, None), "clone")


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def setns(fd: int, kind: int) -> None:
    _check(_libc.setns(fd, kind), "setns")


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [text.encode() if text is not None else None for text in (source, target, kind, data)]
    _check(
        _libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]),
        f"mount {target}",
    )


def unmount(target: str) -> None:
    _check(_libc.umount2(target.encode(), MNT_DETACH), f"umount {target}")


def make_readonly(target: str, *, nodev: bool) -> None:
    """Make a bind mount and all mounts below it read-only, nosuid and, if asked, nodev."""
    flags = MS_RDONLY | MS_NOSUID | (MS_NODEV if nodev else 0)  # the attribute bits have the same values
    attributes = struct.pack("QQQQ", flags, 0, 0, 0)
    if _libc.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, target.encode(), _AT_RECURSIVE, attributes, 32) == 0:
        return
    # Before Linux 5.12. A user namespace may not clear what the source has: keep its flags (ST_* = MS_*).
    kept = os.statvfs(target).f_flag & (MS_NODEV | MS_NOEXEC | MS_NOSUID)
    mount(None, target, None, MS_REMOUNT | MS_BIND | flags | kept)


def pivot_root(new_root: str) -> None:
    """Make `new_root`, a mount point, the root; the old one is gone for good."""
    os.chdir(new_root)
    _check(_libc.syscall(_SYS_PIVOT_ROOT, b".", b"."), "pivot_root")
    unmount(".")
    os.chdir("/")


def prctl(option: int, *arguments: int) -> int:
    padded = [ctypes.c_ulong(value) for value in (*arguments, 0, 0, 0, 0)[:4]]
    return _check(_libc.prctl(option, *padded), f"prctl {option}")


def capabilities() -> range:
    """Numbers of all capabilities that this kernel knows."""
    count = 0
    while _libc.prctl(PR_CAPBSET_READ, ctypes.c_ulong(count), 0, 0, 0) >= 0:
        count += 1
    return range(count)


def set_capabilities(mask: int, inheritable: int = 0) -> None:
    """Set the permitted and effective capabilities of the calling process to `mask`."""
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    halves = [(mask & 0xFFFFFFFF, inheritable & 0xFFFFFFFF), (mask >> 32, inheritable >> 32)]
    data = b"".join(struct.pack("III", own, own, inherited) for own, inherited in halves)
    _check(_libc.syscall(_SYS_CAPSET, header, data), "capset")


def keep_capabilities_over_exec() -> None:
    """Make every capability of the calling process ambient, so that execve of a plain file keeps it."""
    everything = (1 << len(capabilities())) - 1
    set_capabilities(everything, everything)
    for capability in capabilities():
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability)


def close_range(first: int) -> None:
    """Close every descriptor from `first` on."""
    if _libc.close_range(first, ctypes.c_uint(0xFFFFFFFF), 0) != 0:
        os.closerange(first, os.sysconf("SC_OPEN_MAX"))


def set_default_thread_stack(size: int) -> None:
    """Default stack of new threads, in bytes, for this process and what it forks."""
    attributes = ctypes.create_string_buffer(128)
    _libc.pthread_attr_init(attributes)
    _libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(size))
    _libc.pthread_setattr_default_np(attributes)
