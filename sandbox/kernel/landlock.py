"""Landlock rulesets, by which an unprivileged process irreversibly restricts its own accesses.

Each run enters its own Landlock domain (jail/child.py), which denies all file accesses without a grant, even below
/proc. Processes in the domain cannot trace or, from ABI 6 on, signal a process outside it. The seccomp filter
(seccomp.py) denies accesses that the kernel's ABI version cannot restrict.

    ABI   Linux   adds restrictions of
    1     5.13    opening, executing, making and removing files
    2     5.19    moving and linking files between folders, which ABI 1 always denies
    3     6.2     truncating files
    4     6.7     TCP
    5     6.10    ioctl on devices
    6     6.12    signals, and abstract Unix sockets
    7     6.15    (none, but a flag that disables messages in the audit log)
"""

import contextlib
import os
import stat
import struct
from collections.abc import Iterable

from sandbox.kernel import linux

_SYS_CREATE_RULESET, _SYS_ADD_RULE, SYS_RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1  # flag of landlock_create_ruleset: return the ABI instead
_PATH_BENEATH = 1
_NO_LOG_FLAG = 1  # flag of landlock_restrict_self: no denials in the audit log
_EXECUTE, _WRITE, _READ_FILE, _READ_FOLDER = 0x1, 0x2, 0x4, 0x8
_MAKE_DEVICES = 0x40 | 0x800
_TRUNCATE, _DEVICE_REQUESTS = 0x4000, 0x8000
_FILE_RULE_RIGHTS = _EXECUTE | _WRITE | _READ_FILE | _TRUNCATE  # rights permitted in a rule for a single file
_FILE_RIGHTS = (0x1FFF, 0x3FFF, 0x7FFF, 0x7FFF, 0xFFFF)  # all file rights of ABI 1, 2, 3, 4, and of 5 and later
_TCP, _SCOPES = 0x3, 0x3
_TCP_ABI, SIGNALS_ABI, _SILENT_ABI = 4, 6, 7
TRUNCATING_ABI = 3
_SINK_DEVICES = ("/dev/null", "/dev/zero", "/dev/full")
_DEVICES = (*_SINK_DEVICES, "/dev/random", "/dev/urandom")


def read_abi() -> int:
    """Return the kernel's Landlock ABI version. Raises OSError without Landlock."""
    try:
        return linux.make_system_call(_SYS_CREATE_RULESET, 0, 0, _VERSION_FLAG)
    except OSError as error:
        raise OSError(error.errno, f"landlock_create_ruleset: {error.strerror}") from None


def make_ruleset(version: int, *, readable_paths: Iterable[str], writable_path: str) -> int:
    """Return the descriptor of a ruleset that grants only these accesses. Raises OSError.

    version          the ABI version, at most the kernel's
    readable_paths   files and folders to read and execute
    writable_path    folder with all accesses
    """
    handled = _FILE_RIGHTS[min(version, len(_FILE_RIGHTS)) - 1]
    attributes = struct.pack("Q", handled)
    if version >= _TCP_ABI:
        attributes += struct.pack("Q", _TCP)
    if version >= SIGNALS_ABI:
        attributes += struct.pack("Q", _SCOPES)
    ruleset = linux.PreparedSyscall(_SYS_CREATE_RULESET, attributes, len(attributes), 0)()
    os.set_inheritable(ruleset, False)
    try:
        for path in readable_paths:
            _grant(ruleset, path, handled & (_EXECUTE | _READ_FILE | _READ_FOLDER))
        _grant(ruleset, writable_path, handled & ~(_MAKE_DEVICES | _DEVICE_REQUESTS))
        for path in _DEVICES:
            with contextlib.suppress(FileNotFoundError):
                writes = _WRITE | _TRUNCATE if path in _SINK_DEVICES else 0
                _grant(ruleset, path, handled & (_READ_FILE | writes))
    except BaseException:
        os.close(ruleset)
        raise
    return ruleset


def _grant(ruleset: int, path: str, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH)
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _FILE_RULE_RIGHTS
        linux.PreparedSyscall(_SYS_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)()
    finally:
        os.close(descriptor)


def prepare_restrict_self(ruleset: int, version: int) -> linux.PreparedSyscall:
    """Prepare the call that enters a new domain with these rules."""
    return linux.PreparedSyscall(SYS_RESTRICT_SELF, ruleset, _NO_LOG_FLAG if version >= _SILENT_ABI else 0)
