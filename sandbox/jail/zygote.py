"""The warm, trusted process inside the namespaces: forks one child for each run, times it, reaps its tree.

Started by the worker as a fresh interpreter (`python -S -s -P -B -c ...`); descriptor 3 is the channel to it.
It never sees an expected output or a verdict.
"""

import gc
import json
import mmap
import os
import resource
import select
import shutil
import signal
import site
import socket
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from sandbox.jail import linux, rootfs, seccomp
from sandbox.jail.child import WORK, House, Job, become

# Loaded before the first fork, so that programs need not: what half of all solutions import, and what printing
# a traceback needs.
WARM = (
    "array bisect collections collections.abc contextlib copy dataclasses datetime decimal fractions functools"
    " heapq io itertools json linecache math operator queue random re statistics string textwrap threading time"
    " traceback types typing"
).split()
NUMPY = "numpy numpy.linalg".split()
LANGUAGES = ["python"]
_OURS: dict[str, object] = {}  # our own modules, alive but out of sight of programs

_POLL_SECONDS = 0.05  # between looks at the memory of a tree that no cgroup bounds
_PATIENCE = 10  # a run may take this many times its wall limit if the machine gives it no processor


def main(configuration: str) -> None:
    """configuration: JSON with packages (name -> host path), namespaces, full, cgroup, parent, work."""
    config = json.loads(configuration)
    channel = socket.socket(fileno=3)
    layers: dict[str, str] = {}
    try:
        house = _settle(config, layers)
    except Exception as error:
        channel.send(json.dumps({"unavailable": f"{type(error).__name__}: {error}"}).encode())
        return
    channel.send(json.dumps({"layers": layers}).encode())
    _serve(channel, house)


def _filter_calls(*, memfds: bool, required: bool) -> str:
    try:
        seccomp.install(memfds=memfds)
    except (OSError, KeyError) as error:
        if required:
            raise
        return f"none: {error}"
    return "deny list of system calls"


def _settle(config: dict[str, Any], layers: dict[str, str]) -> House:
    """Become what runs are forked from. Raises OSError, with the call that failed."""
    packages: dict[str, str] = config["packages"]
    library = sys.path[1:]  # the first one is ours, put there by the worker
    for name in WARM:
        import_module(name)
    languages = {name: import_module(f"sandbox.languages.{name}") for name in LANGUAGES}
    site.setquit()
    site.setcopyright()
    site.sethelper()
    sys.set_int_max_str_digits(0)
    for kind in (resource.RLIMIT_CORE, resource.RLIMIT_MEMLOCK, resource.RLIMIT_MSGQUEUE):
        resource.setrlimit(kind, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
    linux.set_default_thread_stack(8 << 20)  # otherwise libc takes the huge main stack's for each thread
    work = config["work"]
    if config["namespaces"]:
        work = WORK
        rootfs.build(packages)
        if os.getuid() == 0:
            os.setgroups([])
        for capability in linux.capabilities():
            linux.prctl(linux.PR_CAPBSET_DROP, capability)
    else:
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    sys.path[:] = [work, *library, rootfs.PACKAGES]
    if "numpy" in packages:
        for name in NUMPY:
            import_module(name)
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    layers["seccomp"] = _filter_calls(memfds=config["cgroup"], required=config["full"])
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    if config["namespaces"] is False and os.getppid() != config["parent"]:
        raise ProcessLookupError("the worker died while the zygote started")
    for name in [name for name in sys.modules if name.split(".")[0] == "sandbox"]:
        _OURS[name] = sys.modules.pop(name)  # a program's `import sandbox` finds nothing
    gc.collect()
    gc.freeze()  # so that no collection in a child writes to the pages it shares with us
    return House(config["namespaces"], work, config["cgroup"], languages)


def _serve(channel: socket.socket, house: House) -> None:
    run = _Runs(house)
    while True:
        message, files, _, _ = socket.recv_fds(channel, 65536, 8)
        if not message:
            return  # the worker is gone
        job = Job.from_bytes(message)
        try:
            answer = run(job, files)
        finally:
            for descriptor in files:
                os.close(descriptor)
        channel.send(json.dumps(answer).encode())


class _Runs:
    """Forks, times and reaps runs, one at a time."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.ready = mmap.mmap(-1, mmap.PAGESIZE)  # shared with the child until it becomes the program
        self.own_pid_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY) if house.namespaces else -1

    def __call__(self, job: Job, files: list[int]) -> dict[str, Any]:
        self.ready[:] = bytes(mmap.PAGESIZE)
        started = time.monotonic()
        init = self._start_init()
        pid = linux.fork()
        if pid == 0:
            become(job, files, self.house, self.ready)
        if init:
            linux.setns(self.own_pid_namespace, linux.CLONE_NEWPID)
        ended_by = self._wait(pid, job, started)
        wall_seconds = time.monotonic() - started
        status, usage = self._reap(pid, init)
        answer = {
            "status": status,
            "ended_by": ended_by,
            "cpu_seconds": usage[0],
            "wall_seconds": wall_seconds,
            "max_resident_mb": usage[1],
        }
        if not self.ready[0]:
            message = self.ready[1:].split(b"\0")[0].decode("utf-8", "replace")
            answer["lost"] = message or f"the child ended with wait status {status} before the program began"
        return answer

    def _start_init(self) -> int:
        if not self.house.namespaces:
            return 0
        linux.unshare(linux.CLONE_NEWPID)
        return linux.clone_stub()

    def _wait(self, pid: int, job: Job, started: float) -> str:
        """Wait until the program ends or must be ended; says why it must: "", time, memory or starved."""
        descriptor = os.pidfd_open(pid)
        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            deadline = started + job.wall_seconds
            while True:
                left = deadline - time.monotonic()
                if not self.house.memory_by_cgroup:
                    left = min(left, _POLL_SECONDS)
                if poll.poll(max(0.0, left) * 1000 + 1):
                    return ""
                now = time.monotonic()
                if not self.house.memory_by_cgroup and self._resident_mb() > job.memory_mb:
                    return "memory"
                if now < deadline:
                    continue
                # Too slow, or only too rarely on a processor? Time spent waiting for one does not count.
                cpu_seconds, waited_seconds = self._tree_seconds()
                if cpu_seconds >= job.cpu_seconds or now - started - waited_seconds >= job.wall_seconds:
                    return "time"
                if now - started > _PATIENCE * job.wall_seconds:
                    return "starved"
                deadline = now + max(0.01, job.wall_seconds - (now - started - waited_seconds))
        finally:
            os.close(descriptor)

    def _tree(self) -> Iterator[str]:
        """/proc entries of the processes of the run: all but our own, or without namespaces our descendants."""
        if self.house.namespaces:
            yield from (f"/proc/{name}" for name in os.listdir("/proc") if name.isdigit() and name != "1")
        else:
            yield from (f"/proc/{pid}" for pid in _descendants())

    def _tree_seconds(self) -> tuple[float, float]:
        """CPU seconds of the run so far, and the longest that one of its threads waited for a processor."""
        used = 0
        longest_wait = 0
        for process in self._tree():
            try:
                for thread in os.listdir(f"{process}/task"):
                    with open(f"{process}/task/{thread}/schedstat") as file:
                        on_cpu, waiting = file.read().split()[:2]
                    used += int(on_cpu)
                    longest_wait = max(longest_wait, int(waiting))
            except (OSError, ValueError):
                continue  # it ended meanwhile, or this kernel does not say
        return used / 1e9, longest_wait / 1e9

    def _resident_mb(self) -> float:
        pages = 0
        for process in self._tree():
            try:
                with open(f"{process}/statm") as file:
                    fields = file.read().split()
                pages += int(fields[1]) - int(fields[2])
            except (OSError, ValueError, IndexError):
                continue
        return pages * mmap.PAGESIZE / 2**20

    def _reap(self, pid: int, init: int) -> tuple[int, tuple[float, float]]:
        """Kill what is left of the run and collect it: wait status, (cpu seconds, peak resident MB)."""
        if init:
            os.kill(init, signal.SIGKILL)  # and with it everything in its pid namespace
        else:
            _kill_descendants(pid)
        _, status, own = os.wait4(pid, 0)
        cpu_seconds = own.ru_utime + own.ru_stime
        if init:
            _, _, orphans = os.wait4(init, 0)  # returns when the last process of the run is gone
            cpu_seconds += orphans.ru_utime + orphans.ru_stime
        else:
            _reap_orphans()
            _empty(self.house.work)
        return status, (cpu_seconds, own.ru_maxrss / 1024)


def _descendants() -> list[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rsplit(b")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    wanted = [os.getpid()]
    while wanted:
        below = children.get(wanted.pop(), [])
        found += below
        wanted += below
    return found


def _kill_descendants(keep_zombie: int) -> None:
    """Without a pid namespace: kill until only zombies are left. We are the subreaper: nobody can get away."""
    while True:
        alive = [pid for pid in _descendants() if not _is_zombie(pid)]
        if not alive:
            return
        for pid in alive:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        _reap_orphans(keep_zombie)
        time.sleep(0.001)


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rsplit(b")", 1)[1].split()[0] in (b"Z", b"X")
    except OSError:
        return True


def _reap_orphans(keep: int = 0) -> None:
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None or ended.si_pid == keep:
            return
        os.waitpid(ended.si_pid, 0)


def _empty(directory: str) -> None:
    for entry in os.scandir(directory):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            os.unlink(entry.path)
