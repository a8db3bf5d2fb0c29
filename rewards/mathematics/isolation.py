"""Confine a process that compares mathematical answers, since it parses text that models wrote.

The layers, each where the kernel allows it:

network      a network namespace without any connection
processes    process identifiers of its own, so that it sees and signals no other process
files        Landlock, which leaves only the Python library and installed packages readable. If the caller is root, also
             the uid of the user `nobody`, provided that this user can read these packages

In any case the process has no capabilities and can gain none, and its memory, files and child processes are limited.
Its environment is empty, and its only descriptors are two pipes.

This is not the sandbox: system calls are not filtered, and memory is limited by address space, not by a cgroup. A fault
in the parser that lets text run as code is confined; a fault in the kernel is not.
"""

import contextlib
import ctypes
import os
import resource
import signal
import struct
import sysconfig
from collections.abc import Iterable
from typing import NoReturn

from sandbox.jail import linux

__all__ = ["confine"]

_NOBODY = 65534
_OPEN_FILES = 64
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # numbers of system calls, the same on every machine
_READ_FILE, _READ_DIR = 0x4, 0x8
_FILE_RIGHTS = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF}  # what Landlock can refuse, by its version
_LATER_FILE_RIGHTS = 0xFFFF
_TCP_RIGHTS, _SCOPES = 0x3, 0x3

_libc = ctypes.CDLL(None, use_errno=True)


def confine(packages: Iterable[str], memory_mb: int) -> list[str]:
    """Confine this process for good, and return the names of the layers that are missing.

    packages    folders that stay readable, besides the standard library
    memory_mb   limit of the address space

    The process must have a single thread. If it gets process identifiers of its own, this returns in a child of it.
    """
    folders = {*packages, sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    missing = []
    if os.geteuid() != 0:
        with contextlib.suppress(OSError):
            linux.unshare(linux.CLONE_NEWUSER)
    for flags, layer in ((linux.CLONE_NEWNET | linux.CLONE_NEWIPC, "network"), (linux.CLONE_NEWPID, "processes")):
        try:
            linux.unshare(flags)
        except OSError:
            missing.append(layer)
    if "processes" not in missing:
        _continue_in_child()
    is_nobody = _become_nobody(folders)
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    linux.set_capabilities(0)
    if not _leave_only_readable(folders) and not is_nobody:
        missing.append("files")
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)  # after the change of uid, which clears it
    _set_limits(memory_mb)
    return missing


def _set_limits(memory_mb: int) -> None:
    for kind, most in (
        (resource.RLIMIT_AS, memory_mb << 20),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
    ):
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))


def _continue_in_child() -> None:
    """Fork, and return only in the child. All processes of its namespace end with it, and it ends with us."""
    child = os.fork()
    if child == 0:
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        return
    _end_as(child)


def _end_as(child: int) -> NoReturn:
    for descriptor in (0, 1):
        os.close(descriptor)
    _, status = os.waitpid(child, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0x7F)


def _become_nobody(folders: Iterable[str]) -> bool:
    """Become the user `nobody` if we are root and that user can read the folders; return whether we became it."""
    if os.geteuid() != 0:
        return False
    try:
        os.seteuid(_NOBODY)
    except OSError:  # we are root of a namespace that has no such uid
        return False
    readable = all(os.access(folder, os.R_OK | os.X_OK, effective_ids=True) for folder in folders)
    os.seteuid(0)
    if not readable:
        return False
    try:
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    except OSError:
        return False
    return True


def _leave_only_readable(folders: Iterable[str]) -> bool:
    """Have Landlock refuse TCP, signals to others, and all files outside these folders; return whether it does."""
    version = _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if version < 1:
        return False
    rights = [_FILE_RIGHTS.get(version, _LATER_FILE_RIGHTS)]
    rights += [_TCP_RIGHTS] if version >= 4 else []
    rights += [_SCOPES] if version >= 6 else []
    refused = struct.pack(f"{len(rights)}Q", *rights)
    ruleset = _libc.syscall(_CREATE_RULESET, refused, ctypes.c_size_t(len(refused)), 0)
    if ruleset < 0:
        return False
    for folder in folders:
        with contextlib.suppress(OSError):
            opened = os.open(folder, os.O_PATH | os.O_CLOEXEC)
            rule = struct.pack("=Qi", _READ_FILE | _READ_DIR, opened)
            _libc.syscall(_ADD_RULE, ruleset, 1, rule, 0)
            os.close(opened)
    restricted: int = _libc.syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)
    return restricted == 0
