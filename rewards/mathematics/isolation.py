"""What keeps a process that compares mathematics from the rest of the machine: it parses text that models wrote.

Its layers, each where the kernel allows it: no network but an unconnected one of its own; process identifiers of its
own, so that it sees and signals nobody; Landlock, which leaves of all files the Python library and installed packages,
to be read; nobody's uid if the caller is root and nobody may read these packages; in any case no capabilities, none to
be gained, and limits of memory, files and processes. The environment is empty, and the only descriptors are two pipes.

It is not the sandbox: the kernel's calls are not filtered, and memory is limited by address space and not by a cgroup.
A fault in the parser that lets text run as code is confined by it; a fault in the kernel is not.
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

_NOBODY = 65534
_OPEN_FILES = 64
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # on every machine
_READ_FILE, _READ_DIR = 0x4, 0x8
_FILES = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF}  # what Landlock may refuse, by its version
_LATER_FILES = 0xFFFF
_TCP, _SCOPES = 0x3, 0x3

_libc = ctypes.CDLL(None, use_errno=True)


def confine(packages: Iterable[str], memory_mb: int) -> list[str]:
    """Confine this process, which has one thread, for good; the caller goes on in a child of it if that has process
    identifiers of its own. packages: folders that may be read. Returns the layers that are missing, in words."""
    folders = {*packages, sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    missing = []
    if os.geteuid() != 0:
        with contextlib.suppress(OSError):
            linux.unshare(linux.CLONE_NEWUSER)
    for flags, words in ((linux.CLONE_NEWNET | linux.CLONE_NEWIPC, "network"), (linux.CLONE_NEWPID, "processes")):
        try:
            linux.unshare(flags)
        except OSError:
            missing.append(words)
    if "processes" not in missing:
        _go_on_in_a_child()
    uid_left = _become_nobody(folders)
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    linux.set_capabilities(0)
    if not _only_read(folders) and not uid_left:
        missing.append("files")
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)  # behind the change of uid, which clears it
    for kind, most in (
        (resource.RLIMIT_AS, memory_mb << 20),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
    ):
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))
    return missing


def _go_on_in_a_child() -> None:
    """The child is the first in its namespace: whatever it starts ends with it, and it ends with us."""
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
    """False: the uid stays, since we are not root, or nobody may not read what is imported later."""
    if os.geteuid() != 0:
        return False
    try:
        os.seteuid(_NOBODY)
    except OSError:  # root of a namespace that has no such uid
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


def _only_read(folders: Iterable[str]) -> bool:
    """Whether Landlock could take all files but these folders from us, and TCP, and signals to others."""
    version = _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if version < 1:
        return False
    words = [_FILES.get(version, _LATER_FILES), *([_TCP] if version >= 4 else []), *([_SCOPES] if version >= 6 else [])]
    refused = struct.pack(f"{len(words)}Q", *words)
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
