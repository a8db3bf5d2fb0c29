"""Wrappers for system calls that the standard library lacks; each raises OSError.

They use ctypes.PyDLL, which holds the GIL: some calls return in a forked child, where reacquiring the GIL would
deadlock. After embed_syscall_key, reserved calls carry the key (syscall_key.py).
"""

import ctypes
import mmap
import os
import struct
from collections.abc import Callable

from sandbox.kernel.syscall_key import SyscallKey

CLONE_VM = 0x00000100
CLONE_PARENT = 0x00008000
CLONE_CHILD_CLEARTID, CLONE_CHILD_SETTID = 0x00200000, 0x01000000
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

CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_KILL, CAP_SETGID, CAP_SETUID = 0, 1, 3, 5, 6, 7
CAP_SETPCAP, CAP_SYS_CHROOT, CAP_SYS_ADMIN, CAP_MKNOD = 8, 18, 21, 27

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_KEEPCAPS = 8
PR_CAPBSET_READ = 23
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_GET_TID_ADDRESS = 40
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
PR_CAP_AMBIENT_CLEAR_ALL = 4

WAIT_ALL = 0x40000000  # __WALL: also for children whose exit signal is not SIGCHLD
SIGCHLD = 17

_X86 = os.uname().machine == "x86_64"
_SYS_CLONE = 56 if _X86 else 220
_SYS_PIVOT_ROOT = 155 if _X86 else 41
_SYS_CAPSET = 126 if _X86 else 91
_SYS_MOUNT = 165 if _X86 else 40
_SYS_UMOUNT2 = 166 if _X86 else 39
_SYS_UNSHARE = 272 if _X86 else 97
_SYS_SETNS = 308 if _X86 else 268
_SYS_PRCTL = 157 if _X86 else 167
_SYS_PRLIMIT64 = 302 if _X86 else 261
_SYS_SETRESUID = 117 if _X86 else 147
_SYS_SETRESGID = 119 if _X86 else 149
_SYS_SETFSUID, _SYS_SETFSGID = (122, 123) if _X86 else (151, 152)
_SYS_SETPGID = 109 if _X86 else 154
_SYS_SETSID = 112 if _X86 else 157
_SYS_KILL = 62 if _X86 else 129
_SYS_GETDENTS64 = 217 if _X86 else 61
_SYS_FCHMODAT = 268 if _X86 else 53
_SYS_SETPRIORITY = 141 if _X86 else 140
_SYS_SCHED_SETATTR = 314 if _X86 else 274
_SYS_PIDFD_OPEN = 434
_SYS_MOUNT_SETATTR = 442
_SCHED_OTHER, _SCHED_FLAG_RESET_ON_FORK = 0, 1
_CAPABILITY_VERSION_3 = 0x20080522
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_M_TRIM_THRESHOLD = -1

_libc = ctypes.PyDLL(None, use_errno=True)
_libc.clone.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
_libc.syscall.restype = ctypes.c_long
_fork = getattr(_libc, "_Fork", None)  # glibc >= 2.34: fork without at-fork handlers, at half the cost


def _raise_on_error(returned: int, call_name: str) -> int:
    if returned < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call_name}: {os.strerror(number)}")
    return returned


def _call_libc_syscall(number: int, *arguments: int) -> int:
    returned: int = _libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    return returned if returned >= 0 else -ctypes.get_errno()


_syscall: Callable[..., int] = _call_libc_syscall
_key: SyscallKey | None = None
_keyed_fork: "PreparedSyscall | None" = None


def embed_syscall_key(key: SyscallKey, *, forks: bool = False) -> None:
    """Pass this key in all later reserved calls. forks: whether forks also need the key. Raises OSError."""
    global _key, _syscall, _keyed_fork
    _key, _syscall = key, key.call
    if forks:
        flags, address = CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID | SIGCHLD, get_thread_id_address()
        _keyed_fork = PreparedSyscall(_SYS_CLONE, flags, 0, 0, *((address, 0) if _X86 else (0, address)))


def get_thread_id_address() -> int:
    """Return the address at which libc stores the thread id. Raises OSError without CONFIG_CHECKPOINT_RESTORE."""
    address = ctypes.c_void_p()
    prctl(PR_GET_TID_ADDRESS, ctypes.addressof(address))
    return address.value or 0


def destroy_key() -> None:
    """Destroy this process's copy of the key, if any; reserved calls are then no longer possible."""
    if _key is not None:
        _key.destroy()


def make_system_call(number: int, *arguments: int) -> int:
    """Make a system call with up to five arguments; return the kernel's result. Raises OSError."""
    returned = _syscall(number, *(*arguments, 0, 0, 0, 0, 0)[:5])
    if returned < 0:
        raise OSError(-returned, os.strerror(-returned))
    return returned


def _make_named_call(call_name: str, number: int, *arguments: int) -> int:
    try:
        return make_system_call(number, *arguments)
    except OSError as error:
        raise OSError(error.errno, f"{call_name}: {error.strerror}") from None


class PreparedSyscall:
    """A system call with its arguments, prepared before a fork to reduce copy-on-write page faults in the child.
    Passes arguments of type bytes by address."""

    __slots__ = ("_arguments", "_buffers", "_number")

    def __init__(self, number: int, *arguments: int | bytes) -> None:
        self._number = number
        self._buffers = [ctypes.create_string_buffer(values) for values in arguments if isinstance(values, bytes)]
        addresses = iter([ctypes.addressof(buffer) for buffer in self._buffers])
        values = [next(addresses) if isinstance(argument, bytes) else argument for argument in arguments]
        self._arguments = (*values, 0, 0, 0, 0, 0)[:5]

    def __call__(self) -> int:
        returned = _syscall(self._number, *self._arguments)
        if returned < 0:
            raise OSError(-returned, os.strerror(-returned))
        return returned


def prepare_mount(source: str, target: str, kind: str, flags: int, data: str) -> PreparedSyscall:
    return PreparedSyscall(_SYS_MOUNT, source.encode(), target.encode(), kind.encode(), flags, data.encode())


def prepare_rlimit(kind: int, soft: int, hard: int) -> PreparedSyscall:
    return PreparedSyscall(_SYS_PRLIMIT64, 0, kind, struct.pack("QQ", soft, hard))


def prepare_prctl(option: int, argument: int) -> PreparedSyscall:
    return PreparedSyscall(_SYS_PRCTL, option, argument)


def prepare_setpgid() -> PreparedSyscall:
    return PreparedSyscall(_SYS_SETPGID, 0, 0)


def prepare_setsid() -> PreparedSyscall:
    return PreparedSyscall(_SYS_SETSID)


def prepare_setuid(uid: int) -> list[PreparedSyscall]:
    """Prepare the calls that change uid and gid to this number; a change from uid 0 drops all capabilities."""
    return [PreparedSyscall(call, uid, uid, uid) for call in (_SYS_SETRESGID, _SYS_SETRESUID)]


def prepare_capability_drop() -> list[PreparedSyscall]:
    """Prepare the calls that drop all capabilities, including ambient ones, without a change of uid."""
    return [
        PreparedSyscall(_SYS_PRCTL, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL),
        PreparedSyscall(_SYS_CAPSET, struct.pack("Ii", _CAPABILITY_VERSION_3, 0), bytes(24)),
    ]


def enable_malloc_trim() -> None:
    """Make libc return freed memory to the kernel. Sets malloc's trim threshold, which otherwise grows up to 64 MB."""
    mallopt = getattr(_libc, "mallopt", None)
    if mallopt is not None:  # only glibc has it
        mallopt(_M_TRIM_THRESHOLD, 128 << 10)


def fork() -> int:
    """Fork this single-threaded process without Python's at-fork handlers."""
    if _keyed_fork is not None:
        return _keyed_fork()
    return _raise_on_error(_fork(), "fork") if _fork is not None else os.fork()


def clone(flags: int) -> int:
    """Fork into new namespaces. flags: CLONE_NEW*. Returns 0 in the child, its pid in the caller."""
    return _raise_on_error(_libc.syscall(_SYS_CLONE, ctypes.c_ulong(flags | SIGCHLD), 0, 0, 0, 0), "clone")


_stub_stack = ctypes.create_string_buffer(16384)
_pause = ctypes.cast(_libc.pause, ctypes.c_void_p)


def clone_stub() -> int:
    """Start a process that shares this one's memory and sleeps until a signal kills it; return its pid.

    It runs libc's pause() on a static stack, so only one may exist at a time. It costs a tenth of a fork, which would
    copy the page table.
    """
    top = (ctypes.addressof(_stub_stack) + len(_stub_stack)) & ~15
    if _keyed_fork is None:
        return _raise_on_error(_libc.clone(_pause, top, CLONE_VM | SIGCHLD, None), "clone")
    ctypes.c_void_p.from_address(top - 16).value = _pause.value  # the return address in the new process
    return make_system_call(_SYS_CLONE, CLONE_VM | SIGCHLD, top - 16)


def unshare(flags: int) -> None:
    _make_named_call("unshare", _SYS_UNSHARE, flags)


def setns(fd: int, flags: int) -> None:
    _make_named_call("setns", _SYS_SETNS, fd, flags)


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    texts = [ctypes.c_char_p(text if text is None else text.encode()) for text in (source, target, kind, data)]
    addresses = [ctypes.cast(text, ctypes.c_void_p).value or 0 for text in texts]
    _make_named_call(f"mount {target}", _SYS_MOUNT, *addresses[:3], flags, addresses[3])


def unmount(target: str) -> None:
    text = ctypes.c_char_p(target.encode())
    _make_named_call(f"umount {target}", _SYS_UMOUNT2, ctypes.cast(text, ctypes.c_void_p).value or 0, MNT_DETACH)


def kill(pid: int, signal_number: int) -> None:
    """Send a signal like os.kill, but by a reserved call."""
    _make_named_call("kill", _SYS_KILL, pid, signal_number)


def pidfd_open(pid: int) -> int:
    """Open a pidfd like os.pidfd_open, but by a reserved call."""
    return _make_named_call("pidfd_open", _SYS_PIDFD_OPEN, pid)


def chmod(path: str, mode: int, folder: int) -> None:
    """Set a mode like os.chmod with dir_fd, but by a reserved call."""
    PreparedSyscall(_SYS_FCHMODAT, folder, path.encode(), mode)()


def list_directory(descriptor: int, page: mmap.mmap) -> int:
    """Read directory entries (struct linux_dirent64) into a page; return their size in bytes, 0 at the end."""
    start = ctypes.addressof(ctypes.c_char.from_buffer(page))
    return make_system_call(_SYS_GETDENTS64, descriptor, start, len(page))


def set_fsuid_fsgid(uid: int) -> None:
    """Set the uid and gid for file accesses to the same number. Requires CAP_SETUID and CAP_SETGID."""
    for call in (_SYS_SETFSGID, _SYS_SETFSUID):
        make_system_call(call, uid)


def set_nice(which: int, who: int, nice: int) -> None:
    """Set a niceness like os.setpriority, but by a reserved call. which: os.PRIO_PROCESS or os.PRIO_USER."""
    _make_named_call("setpriority", _SYS_SETPRIORITY, which, who, nice)


def set_scheduler_slice(seconds: float) -> None:
    """Set the scheduler slice of the calling thread, not of its forks. Has no effect before Linux 6.12.

    A short slice reduces the thread's wakeup latency on a busy machine.
    """
    nice, nanoseconds = os.getpriority(os.PRIO_PROCESS, 0), int(seconds * 1e9)
    size = struct.calcsize("IIQiIQQQ")
    data = struct.pack("IIQiIQQQ", size, _SCHED_OTHER, _SCHED_FLAG_RESET_ON_FORK, nice, 0, nanoseconds, 0, 0)
    buffer = ctypes.create_string_buffer(data, size)
    _make_named_call("sched_setattr", _SYS_SCHED_SETATTR, 0, ctypes.addressof(buffer), 0)


def make_readonly(target: str, *, nodev: bool) -> None:
    """Make a bind mount and all mounts below it read-only, nosuid and, optionally, nodev."""
    flags = MS_RDONLY | MS_NOSUID | (MS_NODEV if nodev else 0)  # equal to the MOUNT_ATTR_* flags
    attributes = struct.pack("QQQQ", flags, 0, 0, 0)
    if _libc.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, target.encode(), _AT_RECURSIVE, attributes, 32) == 0:
        return
    # Before Linux 5.12. A user namespace may not clear flags of the source. ST_* and MS_* have the same values.
    kept = os.statvfs(target).f_flag & (MS_NODEV | MS_NOEXEC | MS_NOSUID)
    mount(None, target, None, MS_REMOUNT | MS_BIND | flags | kept)


def pivot_root(new_root: str) -> None:
    """Make the mount point `new_root` the root, and detach the old root."""
    os.chdir(new_root)
    _raise_on_error(_libc.syscall(_SYS_PIVOT_ROOT, b".", b"."), "pivot_root")
    unmount(".")
    os.chdir("/")


def prctl(option: int, *arguments: int) -> int:
    return _make_named_call(f"prctl {option}", _SYS_PRCTL, option, *arguments)


def list_capabilities() -> range:
    """Return the numbers of all capabilities that the kernel supports."""
    count = 0
    while _libc.prctl(PR_CAPBSET_READ, ctypes.c_ulong(count), 0, 0, 0) >= 0:
        count += 1
    return range(count)


def set_capabilities(mask: int, inheritable: int = 0, effective: int | None = None) -> None:
    """Set the capability sets of this process. mask: permitted set; effective: effective set, None for `mask`."""
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    sets = (mask if effective is None else effective, mask, inheritable)
    data = b"".join(struct.pack("III", *(bits >> shift & 0xFFFFFFFF for bits in sets)) for shift in (0, 32))
    buffer = ctypes.create_string_buffer(header + data, len(header + data))
    start = ctypes.addressof(buffer)
    _make_named_call("capset", _SYS_CAPSET, start, start + len(header))


def make_capabilities_ambient() -> None:
    """Make all capabilities of this process ambient, so that execve preserves them."""
    everything = (1 << len(list_capabilities())) - 1
    set_capabilities(everything, everything)
    for capability in list_capabilities():
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability)


def close_range(first: int) -> None:
    """Close all descriptors from `first` on."""
    if _libc.close_range(first, ctypes.c_uint(0xFFFFFFFF), 0) != 0:
        os.closerange(first, os.sysconf("SC_OPEN_MAX"))


def set_default_thread_stack(size: int) -> None:
    """Set the stack size of new threads, in bytes, for this process and its forks."""
    attributes = ctypes.create_string_buffer(128)
    _libc.pthread_attr_init(attributes)
    _libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(size))
    _libc.pthread_setattr_default_np(attributes)
