"""Namespaces that isolate the process of a judge, as far as the kernel permits."""

import fcntl
import os
import signal
import socket
import struct
from collections.abc import Sequence
from pathlib import Path

from sandbox.kernel import linux

_LAYERS = {
    "processes": linux.CLONE_NEWPID,
    "files": linux.CLONE_NEWNS,
    "network": linux.CLONE_NEWNET,
    "messages": linux.CLONE_NEWIPC,
}
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
_TMP = "/tmp"
_TMP_MB = 512


def isolate(visible_folders: Sequence[str], *, network: bool) -> dict[str, str]:
    """Fork into new mount, PID, network and IPC namespaces with a private /tmp. Return a description by layer.

    visible_folders  folders of /tmp that stay visible
    network          whether to keep the host's network namespace

    Returns in the child; the calling process waits for it and exits with its status. The description of a missing layer
    is "none: REASON". If the kernel denies all namespaces, returns in the calling process.
    """
    layers = [name for name in _LAYERS if not (network and name == "network")]
    reason = ""
    for names in (layers, [name for name in layers if name != "processes"]):
        for user in (0, linux.CLONE_NEWUSER):
            try:
                _enter_namespaces(names, user, visible_folders)
            except OSError as error:
                reason = error.strerror or str(error)
                continue
            return {
                name: f"own {name}" if name in names else f"none: {'requested' if name == 'network' else reason}"
                for name in _LAYERS
            }
    return {name: f"none: {reason}" for name in _LAYERS}


def _enter_namespaces(names: Sequence[str], user: int, visible_folders: Sequence[str]) -> None:
    """Fork, and return in a child with these namespaces. Raises OSError in the parent if the kernel denies one.

    names  keys of _LAYERS
    user   CLONE_NEWUSER, or 0 for the current user namespace
    """
    error_reader, error_writer = os.pipe()
    outer = os.fork()
    if outer:
        os.close(error_writer)
        with os.fdopen(error_reader) as pipe:
            number = pipe.read()
        if number:
            os.waitpid(outer, 0)
            raise OSError(int(number), os.strerror(int(number)))
        _wait_and_exit(outer)
    os.close(error_reader)
    try:
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        uid, gid = os.geteuid(), os.getegid()
        linux.unshare(sum(_LAYERS[name] for name in names) | user)
        if user:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1\n")
            Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1\n")
        # The child is PID 1 of the namespace.
        if inner := os.fork():
            os.close(error_writer)
            _wait_and_exit(inner)
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        _mount_private_folders(visible_folders, proc="processes" in names)
        if "network" in names:
            _enable_loopback()
        # PID 1 only reaps orphans.
        if worker := os.fork():
            os.close(error_writer)
            _wait_and_exit(worker)
    except OSError as error:
        os.write(error_writer, str(error.errno or 1).encode())
        os._exit(1)
    os.close(error_writer)


def _mount_private_folders(visible_folders: Sequence[str], *, proc: bool) -> None:
    """Mount a private /tmp, with `visible_folders` in it, and with `proc` a private /proc."""
    linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
    if proc:
        linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV)
    folders = {
        path: os.open(path, os.O_PATH | os.O_DIRECTORY) for path in visible_folders if path.startswith(f"{_TMP}/")
    }
    here = os.getcwd()
    linux.mount("tmpfs", _TMP, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, f"size={_TMP_MB}m,mode=1777")
    for path, descriptor in folders.items():
        os.makedirs(path, exist_ok=True)
        linux.mount(f"/proc/self/fd/{descriptor}", path, None, linux.MS_BIND | linux.MS_REC)
        os.close(descriptor)
    os.chdir(here)


def _enable_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))


def _wait_and_exit(child: int) -> None:
    """Reap all children until `child` exits, and exit with its status."""
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            os._exit(1)
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)
