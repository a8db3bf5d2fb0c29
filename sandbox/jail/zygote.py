"""The warm, trusted process inside the namespaces: forks one child for each run, times it, reaps its tree.

Started by the worker as a fresh interpreter (`python -S -s -P -B -c ...`); descriptor 3 is the channel to it, and 4,
if there is a cgroup, its counter of CPU time.
It never sees an expected output or a verdict.
"""

import contextlib
import gc
import json
import mmap
import os
import random
import resource
import select
import signal
import socket
import sys
import time
from importlib import import_module
from typing import Any

from sandbox.jail import files, linux, rootfs, seccomp, tree
from sandbox.jail.child import BEGAN, SHOWN, WORK, House, Job, become
from sandbox.jail.place import Place
from sandbox.languages import names as language_names

# Loaded before the first fork, so that programs need not: what half of all solutions import, and what printing
# a traceback needs.
WARM = (
    "array bisect collections collections.abc contextlib copy dataclasses datetime decimal fractions functools"
    " heapq io itertools json linecache math operator queue random re statistics string textwrap threading time"
    " traceback types typing"
).split()
NUMPY = "numpy numpy.linalg".split()
_NOT_READY = bytes(mmap.PAGESIZE)
_OURS: dict[str, object] = {}  # our own modules, alive but out of sight of programs

_LITTLE = 1 << 20  # bytes of files that a run may leave until later
_POLL_SECONDS = 0.05  # between looks at the memory of a tree that no cgroup bounds
_PATIENCE = 5  # a run may take this many times its wall limit if the machine gives it no processor,
_PATIENCE_SECONDS = 10  # and that long in any case


def main(configuration: str) -> None:
    """configuration: JSON with packages (name -> host path), toolchain (host paths), namespaces, full, cgroup, parent,
    work."""
    config = json.loads(configuration)
    channel = socket.socket(fileno=3)
    layers: dict[str, str] = {}
    try:
        run = _settle(config, layers)
    except Exception as error:
        channel.send(json.dumps({"unavailable": f"{type(error).__name__}: {error}"}).encode())
        return
    channel.send(json.dumps({"layers": layers}).encode())
    _serve(channel, run)


def _filter_calls(*, memfds: bool, required: bool) -> str:
    try:
        seccomp.install(memfds=memfds)
    except (OSError, KeyError) as error:
        if required:
            raise
        return f"none: {error}"
    return "deny list of system calls"


def _settle(config: dict[str, Any], layers: dict[str, str]) -> "_Runs":
    """Become what runs are forked from. Raises OSError, with the call that failed."""
    packages: dict[str, str] = config["packages"]
    library = sys.path[1:]  # the first one is ours, put there by the worker
    for name in WARM:
        import_module(name)
    languages = {name: import_module(f"sandbox.languages.{name}") for name in language_names()}
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a fresh `python`, also if we are started without
    for language in languages.values():
        language.warm()
    for kind in (resource.RLIMIT_CORE, resource.RLIMIT_MEMLOCK, resource.RLIMIT_MSGQUEUE):
        resource.setrlimit(kind, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
    linux.set_default_thread_stack(8 << 20)  # otherwise libc takes the huge main stack's for each thread
    work = shown = config["work"]
    if config["namespaces"]:
        work, shown = WORK, SHOWN
        rootfs.build(packages, config["toolchain"])
        if os.getuid() == 0:
            os.setgroups([])
        for capability in linux.capabilities():
            linux.prctl(linux.PR_CAPBSET_DROP, capability)
    else:
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    sys.path[:] = [*library, rootfs.PACKAGES]
    if "numpy" in packages:
        with contextlib.suppress(ImportError):  # broken here: programs that import it will say so
            for name in NUMPY:
                import_module(name)
    place = Place(work, namespaces=config["namespaces"])
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    layers["seccomp"] = _filter_calls(memfds=config["cgroup"], required=config["full"])
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    if config["namespaces"] is False and os.getppid() != config["parent"]:
        raise ProcessLookupError("the worker died while the zygote started")
    house = House(config["namespaces"], place.mount_proc, by_cgroup=config["cgroup"], languages=languages)
    run = _Runs(house, place, 4 if config["cgroup"] else -1)
    for name in [name for name in sys.modules if name.split(".")[0] == "sandbox"]:
        _OURS[name] = sys.modules.pop(name)  # a program's `import sandbox` finds nothing
    gc.collect()
    gc.freeze()  # so that no collection in a child writes to the pages it shares with us
    for language in languages.values():
        language.prepare(f"{shown}/{language.SOURCE_FILE}")  # after the freeze: a child must be able to let go of it
    return run


def _serve(channel: socket.socket, run: "_Runs") -> None:
    """Do one job after the other until the worker is gone. An OSError ends the zygote; the worker makes another."""
    last, job = b"", None
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, 1 << 17, 8)
        if not message:
            return
        if message != last or job is None:  # the cases of a suite differ in their files only
            last, job = message, Job.from_bytes(message)
        answer = json.dumps(run(job, descriptors)).encode()
        at_once = run.left_much()  # it would be charged to the next run, whose memory the worker begins to count now
        if at_once:
            run.clear()
        channel.send(answer)
        if not at_once:
            run.clear()  # while the worker looks at the answer
        for descriptor in descriptors:
            os.close(descriptor)


class _Runs:
    """Forks, times and reaps runs, one at a time."""

    def __init__(self, house: House, place: Place, cpu_usage: int) -> None:
        self._house = house
        self._place = place
        self._ready = mmap.mmap(-1, mmap.PAGESIZE)  # shared with the child until it becomes the program
        self._null = os.open("/dev/null", os.O_RDWR)
        self._tree = tree.Tree(all_but_us=house.namespaces, cpu_usage=cpu_usage)

    def __call__(self, job: Job, descriptors: list[int]) -> dict[str, Any]:
        source, artifact, *streams = descriptors
        for number, descriptor in enumerate(streams[:3]):
            os.dup2(descriptor, number)  # ours have no use
        extra = streams[:2:-1]
        language = self._house.languages[job.language]
        executable = job.op == "run" and language.EXECUTABLE
        program = b"" if executable else os.pread(artifact, os.fstat(artifact).st_size, 0)
        kept = artifact if executable else extra.pop() if job.op != "run" else -1
        packed = extra.pop() if job.files else -1
        random.seed(job.seed)  # or the children of one zygote would share its random state
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(job.seed)
        self._tree.begin()
        init = self._place.enter(job, source, language.SOURCE_FILE, packed)
        pid = linux.fork()
        if pid == 0:
            become(job, program, kept, self._house, self._ready)
        self._place.step_back()
        # From here to the end of the child as little as possible: pages that we write to are copied meanwhile.
        ended_by = self._wait(pid, job)
        ended = time.monotonic()
        status, cpu_seconds, resident_mb = self._reap(pid, init)
        began = self._began()
        answer = {
            "status": status,
            "ended_by": ended_by,
            "cpu_seconds": max(cpu_seconds, self._tree.used_seconds()),
            "wall_seconds": ended - began if began else 0.0,
            "ended": ended,
            "max_resident_mb": resident_mb,
        }
        if job.fetch:
            files.collect(job.fetch, job.output_bytes, extra.pop())
        if not began:
            message = self._ready[BEGAN.size :].split(b"\0")[0].decode("utf-8", "replace")
            answer["lost"] = message or f"the child ended with wait status {status} before the program began"
        return answer

    def left_much(self) -> bool:
        return self._place.used_bytes() > _LITTLE

    def clear(self) -> None:
        """Make ready for the next run, after the end of this one."""
        self._place.take_away()
        self._ready[:] = _NOT_READY
        for number in range(3):
            os.dup2(self._null, number)

    def _began(self) -> float:
        """When the program began, in monotonic seconds; 0 if it has not."""
        began: float = BEGAN.unpack_from(self._ready)[0]
        return began

    def _wait(self, pid: int, job: Job) -> str:
        """Wait until the program ends or must be ended; says why it must: "", time, memory or starved."""
        descriptor = os.pidfd_open(pid)
        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            forked = time.monotonic()
            deadline = forked + job.wall_seconds
            while True:
                left = deadline - time.monotonic()
                if not self._house.by_cgroup:
                    left = min(left, _POLL_SECONDS)
                if poll.poll(max(0.0, left) * 1000 + 1):
                    return ""
                now = time.monotonic()
                if not self._house.by_cgroup and self._tree.exceeds(job.memory_mb):
                    return "memory"
                if now < deadline:
                    continue
                # Too slow, or kept from a processor? Then it gets the time that it missed.
                cpu_seconds, kept_seconds = self._tree.seconds()
                elapsed = now - (self._began() or now)
                if cpu_seconds >= job.cpu_seconds:
                    return "time"
                if now - forked > max(_PATIENCE * job.wall_seconds, _PATIENCE_SECONDS):
                    return "starved"
                if elapsed - kept_seconds >= job.wall_seconds and not self._tree.is_waiting():
                    return "" if poll.poll(0) else "time"
                deadline = now + max(0.01, job.wall_seconds - (elapsed - kept_seconds))
        finally:
            os.close(descriptor)

    def _reap(self, pid: int, init: int) -> tuple[int, float, float]:
        """Kill what is left of the run and collect it: wait status, CPU seconds, peak resident MB."""
        if init:
            os.kill(init, signal.SIGKILL)  # and with it everything in its pid namespace
        else:
            self._tree.kill(keep=pid)
        cpu_seconds, status, resident_mb = 0.0, 0, 0.0
        missing = {pid, init} - {0}
        while missing:  # init ends when the last process of the run is gone
            ended, wait_status, usage = os.wait4(-1, linux.WAIT_ALL)
            missing.discard(ended)
            cpu_seconds += usage.ru_utime + usage.ru_stime
            if ended == pid:
                status, resident_mb = wait_status, usage.ru_maxrss / 1024
        if not init:
            tree.reap()
        return status, cpu_seconds, resident_mb
