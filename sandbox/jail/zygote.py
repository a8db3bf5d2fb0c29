"""The warm, trusted process behind the wall around programs: it forks one child for each run, times it and reaps its
tree.

The warden starts it as a fresh interpreter (`python -S -s -P -B -c ...`). Descriptor 3 is the channel to the judge;
4, 5 and 6, if there is a cgroup, are its counters (process_tree.CgroupCounterFds); the last one is /proc, if it cannot
be opened. It never sees an expected output or a verdict. Nor does anything that a run is given or produces pass through
its memory, which all later runs inherit: only the forked child reads programs, inputs, arguments and names of files.
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

from sandbox.jail import landlock, linux, process_tree, seccomp
from sandbox.jail.child import (
    START_TIME_STRUCT,
    UID,
    VISIBLE_WORK,
    WORK_DIRECTORY,
    RunDescriptors,
    RunParams,
    ZygoteSetup,
    exec_program,
    pack_fetched_files,
    prepare_syscalls,
)
from sandbox.jail.packages import NUMPY_PRELOADS
from sandbox.jail.seccomp_notify import SeccompSupervisor
from sandbox.jail.worker_config import NAMESPACES, NONE
from sandbox.jail.workspace import Workspace, prepare_proc_mount
from sandbox.languages import names as language_names

# Loaded before the first fork, so that programs need not load them: modules that half of all solutions import, and
# those that printing a traceback needs.
PRELOADED_MODULES = (
    "array bisect collections collections.abc contextlib copy dataclasses datetime decimal fractions functools"
    " heapq io itertools json linecache math operator queue random re statistics string textwrap threading time"
    " traceback types typing"
).split()
_NOT_READY = bytes(mmap.PAGESIZE)
_OURS: dict[str, object] = {}  # our own modules, kept alive but hidden from programs

_LITTLE = 1 << 20  # bytes of files that may be removed after the answer has been sent
_SLICE_SECONDS = 0.0001  # the shortest slice that the scheduler takes
_POLL_SECONDS = 0.05  # time between two checks of what a run has used
_SLACK_MB = 16  # allowance for what the peak of resident memory includes beside that of the program
_FIRST_PID_AFTER_THE_PROGRAM = 3  # in the pid namespace of a run: 1 is its init, 2 the program


def main() -> None:
    """Be a zygote. The first message is JSON: loaded, referee, cgroup, parent, and spawn.ZygoteConfinement."""
    channel = socket.socket(fileno=3)
    config = json.loads(channel.recv(1 << 16))
    layers: dict[str, str] = {}
    try:
        launcher = _set_up(config, layers)
    except Exception as error:
        channel.send(json.dumps({"unavailable": f"{type(error).__name__}: {error}"}).encode())
        return
    channel.send(json.dumps({"layers": layers}).encode())
    _serve(channel, launcher)


def _filter_calls(setting: seccomp.FilterSettings, *, required: bool) -> tuple[str, int]:
    """Install the filter of system calls; return a description for people, and the descriptor of notifications."""
    try:
        listener = seccomp.install(setting)
    except (OSError, KeyError) as error:
        if required:
            raise
        return f"none: {error}", -1
    missing = "" if listener >= 0 else "; no locks on ranges of files, which need Linux 5.5"
    return f"list of allowed system calls{missing}", listener


def _set_up(config: dict[str, Any], layers: dict[str, str]) -> "_RunLauncher":
    """Become the process from which runs are forked. Raises OSError, which names the call that failed."""
    with contextlib.suppress(OSError):
        linux.set_scheduler_slice(_SLICE_SECONDS)  # or a run of a hundred busy processes would end late
    library = sys.path[1:]  # the first one is ours, put there by the warden
    for name in PRELOADED_MODULES:
        import_module(name)
    languages = {name: import_module(f"sandbox.languages.{name}") for name in language_names()}
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a fresh `python`, also if SIGINT was ignored
    for language in languages.values():
        language.warm()
        if config["referee"] and language.CALLABLE:
            language.warm_for_tests()
    for kind in (resource.RLIMIT_MEMLOCK, resource.RLIMIT_MSGQUEUE):
        resource.setrlimit(kind, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
    linux.set_default_thread_stack(8 << 20)  # otherwise libc takes the huge main stack's for each thread
    level, owner, abi = config["level"], config["owner"], config["abi"]
    has_namespaces = level == NAMESPACES
    work = shown = config["work"]
    if has_namespaces:
        work, shown = WORK_DIRECTORY, VISIBLE_WORK
        if os.getuid() == 0:
            os.setgroups([])
    else:
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    with contextlib.nullcontext() if has_namespaces else contextlib.suppress(PermissionError):
        for capability in linux.capabilities():
            linux.prctl(linux.PR_CAPBSET_DROP, capability)
    sys.path[:] = [*library, config["packages"]]
    for name in config["loaded"]:
        # A numpy that is broken here concerns only programs that import it, and they will say so.
        with contextlib.suppress(ImportError) if name in NUMPY_PRELOADS else contextlib.nullcontext():
            import_module(name)
    proc = config["proc"] if config["proc"] >= 0 else os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    workspace = Workspace(work, proc, namespaces=has_namespaces)
    ruleset = landlock.make_ruleset(abi, readable=config["readable"], writable=work) if abi else -1
    if owner is not None:
        linux.set_fsuid_fsgid(owner)  # files of a run are its own, and so are the processes that we look at
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    setting = seccomp.FilterSettings(allow_memfd=config["cgroup"], notify=True, abi=abi, has_own_uid=owner is not None)
    layers["seccomp"], listener = _filter_calls(setting, required=level != NONE)
    if listener >= 0 and not config["cgroup"]:
        layers["number of processes"] = "counted at each fork"
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    if not has_namespaces and os.getppid() != config["parent"]:
        raise ProcessLookupError("the worker died while the zygote started")
    setup = ZygoteSetup(
        has_namespaces,
        prepare_proc_mount(),
        landlock.prepare_restrict_self(ruleset, abi) if abi else None,
        owner,
        has_cgroup_limits=config["cgroup"],
        counts_forks=listener >= 0,
        languages=languages,
    )
    tree = process_tree.ProcessTree(
        proc,
        all_but_us=has_namespaces,
        uid=UID if has_namespaces and os.getuid() == 0 else None,
        counters=process_tree.CgroupCounterFds(4, 5, 6) if config["cgroup"] else None,
    )
    notifications = SeccompSupervisor(
        listener,
        tree,
        proc,
        work if has_namespaces or abi else "",
        shared=abi > 0,
        only_own=0 < abi < landlock.SIGNALS_ABI,
    )
    launcher = _RunLauncher(setup, workspace, notifications, tree)
    for name in [name for name in sys.modules if name.split(".")[0] == "sandbox"]:
        _OURS[name] = sys.modules.pop(name)  # a program's `import sandbox` finds nothing
    gc.collect()
    gc.freeze()  # so that no collection in a child writes to the pages it shares with us
    for language in languages.values():
        language.prepare(f"{shown}/{language.SOURCE_FILE}")  # after the freeze: a child must be able to let go of it
    if config["referee"]:  # an output of a million digits must not keep it busy
        sys.set_int_max_str_digits(sys.int_info.default_max_str_digits)
    return launcher


def _serve(channel: socket.socket, launcher: "_RunLauncher") -> None:
    """Do one job after another until the worker is gone. An OSError ends the zygote; the worker starts another one."""
    last, job = b"", None
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, 1 << 17, 16)
        if not message:
            return
        if message != last or job is None:  # the cases of a suite differ only in their files
            last, job = message, RunParams.from_bytes(message)
        answer = json.dumps(launcher.run(job, descriptors)).encode()
        at_once = (
            launcher.needs_early_cleanup()
        )  # or the next run would be charged for it: the worker begins to count now
        if at_once:
            launcher.clean_up()
        channel.send(answer)
        if not at_once:
            launcher.clean_up()  # while the worker looks at the answer
        for descriptor in descriptors:
            os.close(descriptor)


def _run_descriptors(job: RunParams, artifact: int, others: list[int]) -> RunDescriptors:
    sent = [job.has_result, job.has_child_params, job.has_files, job.fetches_files, job.has_preamble]
    following = iter(others)
    return RunDescriptors(artifact, *(next(following) if is_sent else -1 for is_sent in sent))


def _was_killed(pid: int) -> bool:
    """Return whether a child that has ended was killed by SIGKILL."""
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | linux.WAIT_ALL)
    return ended is not None and (ended.si_code, ended.si_status) == (os.CLD_KILLED, signal.SIGKILL)


class _RunLauncher:
    """Forks, times and reaps runs, one at a time."""

    def __init__(
        self,
        setup: ZygoteSetup,
        workspace: Workspace,
        notifications: SeccompSupervisor,
        tree: process_tree.ProcessTree,
    ) -> None:
        self._setup = setup
        self._notifications = notifications
        self._workspace = workspace
        self._job: RunParams | None = None  # the latest
        self._steps: list[linux.PreparedSyscall] = []  # of its child
        self._ready = mmap.mmap(-1, mmap.PAGESIZE)  # shared with the child until it becomes the program
        self._own_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        self._null = os.open("/dev/null", os.O_RDWR)
        self._tree = tree

    def run(self, job: RunParams, descriptors: list[int]) -> dict[str, Any]:
        """Do one run; return how it ended, for the judge. Raises OSError."""
        source, artifact, *streams = descriptors
        for number, descriptor in enumerate(streams[:3]):
            os.dup2(descriptor, number)  # the zygote does not use its own streams
        fds = _run_descriptors(job, artifact, streams[3:])
        language = self._setup.languages[job.language]
        if job is not self._job:
            self._job, self._steps = job, prepare_syscalls(job, self._setup)
        owner = UID if self._setup.has_namespaces else None
        random.seed(job.seed)  # or the children of one zygote would share its random state
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(job.seed)
        self._tree.begin()
        self._notifications.begin(job.processes, job.address_space)
        init = self._workspace.enter(job, source, language.SOURCE_FILE)
        pid = linux.fork()
        if pid == 0:
            exec_program(job, language, fds, self._setup.enter_domain, self._steps, owner, self._ready)
        self._workspace.restore_oom_score()
        # From here to the end of the child as little as possible: pages that we write to are copied meanwhile.
        ended_by = self._wait(pid, job)
        ended = time.monotonic()
        killed = not ended_by and _was_killed(pid)
        from_outside = killed and (init != 0 or self._setup.counts_forks) and not self._has_killed()
        status, cpu_seconds, resident_mb = self._reap(pid, init)
        if not self._setup.has_cgroup_limits and resident_mb > job.memory_mb + self._own_mb + _SLACK_MB:
            ended_by = ended_by or "memory"  # it held more between two checks
        start_time = self._began()
        answer = {
            "status": status,
            "kill_reason": ended_by,
            "killed": killed,
            "killed_from_outside": from_outside,
            "cpu_seconds": max(cpu_seconds, self._tree.cpu_seconds()),
            "wall_seconds": ended - start_time if start_time else 0.0,
            "end_time": ended,
            "max_resident_mb": resident_mb,
            "refused_memory": self._notifications.has_refused_memory,
        }
        if job.fetches_files and self._collect(job, fds) == -signal.SIGKILL:
            answer["kill_reason"] = "memory"  # what it printed and what it left do not both fit
        if not start_time:
            message = self._ready[START_TIME_STRUCT.size :].split(b"\0")[0].decode("utf-8", "replace")
            answer["lost"] = message or f"the child ended with wait status {status} before the program began"
        return answer

    def _has_killed(self) -> bool:
        """Return whether the run may have sent a SIGKILL itself.

        Without notifications (seccomp_notify.py), return whether it has ever had a process or thread besides its
        program: the program cannot be killed by its own pid (seccomp.py), and a pid namespace gives out pids in order.
        """
        if self._notifications.descriptor >= 0:
            return self._notifications.has_used_sigkill
        try:
            pid = linux.fork()
        except OSError:  # init is gone, too, which nobody in the run can kill
            return False
        if pid == 0:
            os._exit(os.getpid() != _FIRST_PID_AFTER_THE_PROGRAM)
        return os.waitpid(pid, 0)[1] != 0

    def _collect(self, job: RunParams, fds: RunDescriptors) -> int:
        """Pack the files to be fetched; return how the process that does so ended: 0, or minus its signal."""
        self._workspace.leave_pid_namespace()  # nobody can be forked into a pid namespace whose init is gone
        self._workspace.maximize_oom_score()
        pid = linux.fork()
        if pid == 0:
            pack_fetched_files(job, fds)
        self._workspace.restore_oom_score()
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def needs_early_cleanup(self) -> bool:
        """Return whether the run has left so many files that they must be removed before the answer is sent."""
        return self._workspace.used_bytes() > _LITTLE

    def clean_up(self) -> None:
        """Clean up after a run, and be ready for the next one."""
        self._workspace.remove()
        self._ready[:] = _NOT_READY
        for number in range(3):
            os.dup2(self._null, number)

    def _began(self) -> float:
        """Return when the program began, in monotonic seconds; 0 if it has not begun."""
        start_time: float = START_TIME_STRUCT.unpack_from(self._ready)[0]
        return start_time

    def _wait(self, pid: int, job: RunParams) -> str:
        """Wait until the program ends or must be ended; return why it must: "" (it ended), time, memory or starved."""
        descriptor = linux.pidfd_open(pid)
        try:
            poll, poll_program = select.poll(), select.poll()
            for each in (poll, poll_program):
                each.register(descriptor, select.POLLIN)
            if self._notifications.descriptor >= 0:
                poll.register(self._notifications.descriptor, select.POLLIN)
            forked = time.monotonic()
            deadline, check = forked + job.wall_seconds, forked + _POLL_SECONDS
            while True:
                left = min(deadline, check) - time.monotonic()
                # After a refused fork, further forks wait for the next check: a fork bomb would keep this process busy.
                either = poll_program if self._notifications.has_refused_fork else poll
                ready = [number for number, _ in either.poll(max(0.0, left) * 1000 + 1)]
                if descriptor in ready:
                    return ""
                if ready:
                    self._notifications.handle_notification()
                now = time.monotonic()
                if now >= check:
                    exceeded = self._tree.exceeded_limit(job, deadline)
                    if exceeded:
                        return "" if descriptor in dict(poll_program.poll(0)) else exceeded
                    if self._workspace.exceeds_disk_limit(job.disk_mb):
                        return "memory"
                    self._notifications.has_refused_fork = False
                    check = time.monotonic() + _POLL_SECONDS
                if now < deadline:
                    continue
                # If it was not slow but kept from a processor, it gets the time that it missed.
                elapsed = now - (self._began() or now)
                cpu_seconds, kept_seconds = self._tree.cpu_and_wait_seconds()
                late = cpu_seconds >= job.cpu_seconds
                if not late and elapsed - kept_seconds >= job.wall_seconds and not self._tree.is_waiting_for_cpu():
                    late = (
                        elapsed - self._tree.cpu_and_wait_seconds()[1] >= job.wall_seconds
                    )  # all its waits are counted by now
                if late:
                    return "" if descriptor in dict(poll_program.poll(0)) else "time"
                if job.is_starved(cpu_seconds, now - forked):
                    return "starved"
                deadline = now + max(0.01, job.wall_seconds - (elapsed - kept_seconds))
        finally:
            os.close(descriptor)

    def _reap(self, pid: int, init: int) -> tuple[int, float, float]:
        """Kill what is left of the run and reap it; return wait status, CPU seconds and peak resident MB."""
        cpu_seconds, status, resident_mb = 0.0, 0, 0.0
        linux.kill(init or pid, signal.SIGKILL)  # with the init goes everything in its pid namespace
        missing = {pid, init} - {0}
        while missing:  # init ends when the last process of the run is gone
            ended, wait_status, usage = os.wait4(-1, linux.WAIT_ALL)
            missing.discard(ended)
            cpu_seconds += usage.ru_utime + usage.ru_stime
            if ended == pid:
                status, resident_mb = wait_status, usage.ru_maxrss / 1024
        if not init:
            cpu_seconds += self._tree.kill()
        return status, cpu_seconds, resident_mb
