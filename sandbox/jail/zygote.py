"""The zygote: the warm, trusted process inside the isolated environment, which forks one child for each run.

The warden starts it as a fresh interpreter (`python -S -s -P -B -c ...`). Descriptor 3 is the channel to the judge; 4,
5 and 6 are the counters of its cgroup, if any (process_tree.CgroupCounterFds); the last one is /proc, if its root lacks
it. The zygote never receives an expected output or a verdict. No input or output of a run enters its memory, which all
later runs inherit: only the forked child reads programs, inputs, arguments and file names.
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

from sandbox.jail import process_tree
from sandbox.jail.child import (
    MAX_DESCRIPTORS,
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
from sandbox.kernel import landlock, linux, seccomp
from sandbox.languages import list_names as list_language_names

# Modules that at least half of all solutions import, and modules that print a traceback.
PRELOADED_MODULES = (
    "array bisect collections collections.abc contextlib copy dataclasses datetime decimal fractions functools"
    " heapq io itertools json linecache math operator queue random re statistics string textwrap threading time"
    " traceback types typing"
).split()
_EMPTY_PAGE = bytes(mmap.PAGESIZE)
_HIDDEN_MODULES: dict[str, object] = {}  # keeps this package's modules alive after their removal from sys.modules

_MAX_DEFERRED_BYTES = 1 << 20  # maximum size of a run's files for removal after the response
_SLICE_SECONDS = 0.0001  # the scheduler's minimum
_POLL_SECONDS = 0.05  # interval of usage checks
_SLACK_MB = 16  # allowance for memory inherited from the zygote
_FIRST_PID_AFTER_THE_PROGRAM = 3  # in a run's pid namespace: 1 is its init, and 2 the program


def main() -> None:
    """Run a zygote. Its first message is the JSON configuration from spawn.ZygoteProcess."""
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


def _install_filter(settings: seccomp.FilterSettings, *, required: bool) -> tuple[str, int]:
    """Install the seccomp filter; return a description of this layer, and the descriptor of notifications."""
    try:
        listener = seccomp.install(settings)
    except (OSError, KeyError) as error:
        if required:
            raise
        return f"none: {error}", -1
    restriction = "" if listener >= 0 else "; no record locks, which require Linux 5.5"
    return f"list of allowed system calls{restriction}", listener


def _set_up(config: dict[str, Any], layers: dict[str, str]) -> "_RunLauncher":
    """Import modules, reduce privileges and install the filter. Raises OSError, which names the failed call."""
    with contextlib.suppress(OSError):
        linux.set_scheduler_slice(_SLICE_SECONDS)  # otherwise a hundred busy processes of a run would delay their kill
    library = sys.path[1:]  # without this package's folder, which the warden inserted
    for name in PRELOADED_MODULES:
        import_module(name)
    languages = {name: import_module(f"sandbox.languages.{name}") for name in list_language_names()}
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the caller may ignore SIGINT
    for language in languages.values():
        language.warm()
        if config["referee"] and language.CALLABLE:
            language.warm_for_tests()
    for kind in (resource.RLIMIT_MEMLOCK, resource.RLIMIT_MSGQUEUE):
        resource.setrlimit(kind, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (MAX_DESCRIPTORS, MAX_DESCRIPTORS))
    linux.set_default_thread_stack(8 << 20)  # the default is the huge limit of the main stack
    level, owner, abi = config["level"], config["owner"], config["abi"]
    has_namespaces = level == NAMESPACES
    work = visible_work = config["work"]
    if has_namespaces:
        work, visible_work = WORK_DIRECTORY, VISIBLE_WORK
        if os.getuid() == 0:
            os.setgroups([])
    else:
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    with contextlib.nullcontext() if has_namespaces else contextlib.suppress(PermissionError):
        for capability in linux.list_capabilities():
            linux.prctl(linux.PR_CAPBSET_DROP, capability)
    sys.path[:] = [*library, config["packages"]]
    for name in config["loaded"]:
        # A broken numpy must fail only the programs that import it.
        with contextlib.suppress(ImportError) if name in NUMPY_PRELOADS else contextlib.nullcontext():
            import_module(name)
    proc = config["proc"] if config["proc"] >= 0 else os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    workspace = Workspace(work, proc, namespaces=has_namespaces)
    ruleset = landlock.make_ruleset(abi, readable_paths=config["readable"], writable_path=work) if abi else -1
    if owner is not None:
        linux.set_fsuid_fsgid(owner)  # for access to the run's files and /proc entries
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    settings = seccomp.FilterSettings(allow_memfd=config["cgroup"], notify=True, abi=abi, has_own_uid=owner is not None)
    layers["seccomp"], listener = _install_filter(settings, required=level != NONE)
    if listener >= 0 and not config["cgroup"]:
        layers["number of processes"] = "counted at each fork"
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    if not has_namespaces and os.getppid() != config["parent"]:
        raise ProcessLookupError("the warden exited during the start of the zygote")
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
        owns_namespace=has_namespaces,
        uid=UID if has_namespaces and os.getuid() == 0 else None,
        counters=process_tree.CgroupCounterFds(4, 5, 6) if config["cgroup"] else None,
    )
    notifications = SeccompSupervisor(
        listener,
        tree,
        proc,
        work if has_namespaces or abi else "",
        has_foreign_files=abi > 0,
        deny_foreign_signals=0 < abi < landlock.SIGNALS_ABI,
    )
    launcher = _RunLauncher(setup, workspace, notifications, tree)
    for name in [name for name in sys.modules if name.split(".")[0] == "sandbox"]:
        _HIDDEN_MODULES[name] = sys.modules.pop(name)  # makes `import sandbox` fail in programs
    gc.collect()
    gc.freeze()  # otherwise a garbage collection in a child would copy shared pages
    for language in languages.values():
        language.prepare(f"{visible_work}/{language.SOURCE_FILE}")  # after the freeze, so that a child can free it
    if config["referee"]:  # bounds the time in which a referee parses an output of a million digits
        sys.set_int_max_str_digits(sys.int_info.default_max_str_digits)
    return launcher


def _serve(channel: socket.socket, launcher: "_RunLauncher") -> None:
    """Execute runs until the judge exits. Raises OSError if a run fails; the judge then starts another zygote."""
    last_message, params = b"", None
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, 1 << 17, 16)
        if not message:
            return
        # The cases of a suite mostly have equal messages; only their files differ.
        if message != last_message or params is None:
            last_message, params = message, RunParams.from_bytes(message)
        response = json.dumps(launcher.run(params, descriptors)).encode()
        # Large files would count for the next run, since the judge resets the counters after the response.
        cleans_early = launcher.needs_early_cleanup()
        if cleans_early:
            launcher.clean_up()
        channel.send(response)
        if not cleans_early:
            launcher.clean_up()  # concurrently with the judge's work on the response
        for descriptor in descriptors:
            os.close(descriptor)


def _assign_descriptors(params: RunParams, artifact: int, others: list[int]) -> RunDescriptors:
    sent = [params.has_result, params.has_child_params, params.has_files, params.fetches_files, params.has_preamble]
    remaining = iter(others)
    return RunDescriptors(artifact, *(next(remaining) if is_sent else -1 for is_sent in sent))


def _was_ended_by_sigkill(pid: int) -> bool:
    info = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | linux.WAIT_ALL)
    return info is not None and (info.si_code, info.si_status) == (os.CLD_KILLED, signal.SIGKILL)


class _RunLauncher:
    def __init__(
        self, setup: ZygoteSetup, workspace: Workspace, notifications: SeccompSupervisor, tree: process_tree.ProcessTree
    ) -> None:
        self._setup = setup
        self._notifications = notifications
        self._workspace = workspace
        self._last_params: RunParams | None = None
        self._prepared: list[linux.PreparedSyscall] = []  # system calls of a child with _last_params
        self._start_page = mmap.mmap(-1, mmap.PAGESIZE)  # see exec_program
        self._zygote_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        self._null = os.open("/dev/null", os.O_RDWR)
        self._tree = tree

    def run(self, params: RunParams, descriptors: list[int]) -> dict[str, Any]:
        """Execute one run; return the fields of its ZygoteReport. Raises OSError."""
        source, artifact, *streams = descriptors
        for number, descriptor in enumerate(streams[:3]):
            os.dup2(descriptor, number)  # the zygote has no use for its own streams
        fds = _assign_descriptors(params, artifact, streams[3:])
        if params is not self._last_params:
            self._last_params, self._prepared = params, prepare_syscalls(params, self._setup)
        random.seed(params.seed)  # otherwise all children of a zygote would have the same random state
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(params.seed)
        self._tree.begin_run()
        self._notifications.begin_run(params.processes, params.address_space_bytes)
        init = self._workspace.create(params, source, self._setup.languages[params.language].SOURCE_FILE)
        pid = linux.fork()
        if pid == 0:
            exec_program(params, self._setup, fds, self._prepared, self._start_page)
        self._workspace.restore_oom_score()
        # Until the child exits, the first write to each page copies it.
        kill_reason = self._wait_for_end(pid, params)
        end_time = time.monotonic()
        killed = not kill_reason and _was_ended_by_sigkill(pid)
        from_outside = killed and (init != 0 or self._setup.counts_forks) and not self._may_have_sent_sigkill()
        status, cpu_seconds, resident_mb = self._reap(pid, init)
        if not self._setup.has_cgroup_limits and resident_mb > params.memory_mb + self._zygote_mb + _SLACK_MB:
            kill_reason = kill_reason or "memory"  # the run exceeded the limit between two checks
        start_time = self._read_start_time()
        response = {
            "status": status,
            "kill_reason": kill_reason,
            "killed": killed,
            "killed_from_outside": from_outside,
            "cpu_seconds": max(cpu_seconds, self._tree.measure_cpu_seconds()),
            "wall_seconds": end_time - start_time if start_time else 0.0,
            "end_time": end_time,
            "max_resident_mb": resident_mb,
            "refused_memory": self._notifications.has_refused_memory,
        }
        if params.fetches_files and self._pack_files(params, fds) == -signal.SIGKILL:
            response["kill_reason"] = "memory"  # outputs and files together exceed the limit
        if not start_time:
            message = self._start_page[START_TIME_STRUCT.size :].split(b"\0")[0].decode("utf-8", "replace")
            response["loss_reason"] = message or f"the child ended with wait status {status} before the program's start"
        return response

    def _may_have_sent_sigkill(self) -> bool:
        """Return whether the run may have sent a SIGKILL.

        Without notifications (seccomp_notify.py), only a second process or thread could have done so, since the program
        cannot kill its own pid (kernel/seccomp.py). A pid namespace assigns pids in order, so the pid of a new fork
        reveals whether the run ever had one.
        """
        if self._notifications.descriptor >= 0:
            return self._notifications.has_used_sigkill
        try:
            pid = linux.fork()
        except OSError:  # init has exited, and no process of the run could have killed it
            return False
        if pid == 0:
            os._exit(os.getpid() != _FIRST_PID_AFTER_THE_PROGRAM)
        return os.waitpid(pid, 0)[1] != 0

    def _pack_files(self, params: RunParams, fds: RunDescriptors) -> int:
        """Fork a process that packs the files to return; return its exit status, or minus the signal number."""
        self._workspace.leave_pid_namespace()  # without an init, the run's pid namespace permits no forks
        self._workspace.maximize_oom_score()
        pid = linux.fork()
        if pid == 0:
            pack_fetched_files(params, fds)
        self._workspace.restore_oom_score()
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def needs_early_cleanup(self) -> bool:
        """Return whether the run's files are too large for a removal after the response."""
        return self._workspace.count_used_bytes() > _MAX_DEFERRED_BYTES

    def clean_up(self) -> None:
        self._workspace.remove()
        self._start_page[:] = _EMPTY_PAGE
        for number in range(3):
            os.dup2(self._null, number)

    def _read_start_time(self) -> float:
        """Return the program's start time in monotonic seconds; 0 if it has not started."""
        start_time: float = START_TIME_STRUCT.unpack_from(self._start_page)[0]
        return start_time

    def _wait_for_end(self, pid: int, params: RunParams) -> str:
        """Wait until the program exits or the zygote must kill it; return the kill reason, see ZygoteReport."""
        descriptor = linux.pidfd_open(pid)
        try:
            poll, poll_program = select.poll(), select.poll()
            for each in (poll, poll_program):
                each.register(descriptor, select.POLLIN)
            if self._notifications.descriptor >= 0:
                poll.register(self._notifications.descriptor, select.POLLIN)
            forked = time.monotonic()
            deadline, check = forked + params.wall_seconds, forked + _POLL_SECONDS
            while True:
                timeout_seconds = min(deadline, check) - time.monotonic()
                # After a denied fork, ignore further notifications until the next check: otherwise a fork bomb would
                # keep this process busy.
                active_poll = poll_program if self._notifications.has_refused_fork else poll
                ready = [number for number, _ in active_poll.poll(max(0.0, timeout_seconds) * 1000 + 1)]
                if descriptor in ready:
                    return ""
                if ready:
                    self._notifications.handle_notification()
                now = time.monotonic()
                if now >= check:
                    exceeded = self._tree.find_exceeded_limit(params, deadline)
                    if exceeded:
                        return "" if descriptor in dict(poll_program.poll(0)) else exceeded
                    if self._workspace.exceeds_disk_limit(params.disk_mb):
                        return "memory"
                    self._notifications.has_refused_fork = False
                    check = time.monotonic() + _POLL_SECONDS
                if now < deadline:
                    continue
                # Extend the deadline by the run's CPU waits.
                elapsed = now - (self._read_start_time() or now)
                cpu_seconds, wait_seconds = self._tree.measure_cpu_and_wait_seconds()
                is_late = cpu_seconds >= params.cpu_seconds
                if (
                    not is_late
                    and elapsed - wait_seconds >= params.wall_seconds
                    and not self._tree.is_waiting_for_cpu()
                ):
                    # No thread is waiting, so the kernel's counters of CPU waits are complete.
                    is_late = elapsed - self._tree.measure_cpu_and_wait_seconds()[1] >= params.wall_seconds
                if is_late:
                    return "" if descriptor in dict(poll_program.poll(0)) else "time"
                if params.is_starved(cpu_seconds, now - forked):
                    return "starved"
                deadline = now + max(0.01, params.wall_seconds - (elapsed - wait_seconds))
        finally:
            os.close(descriptor)

    def _reap(self, pid: int, init: int) -> tuple[int, float, float]:
        """Kill and reap all processes of the run; return wait status, CPU seconds and peak resident MB."""
        cpu_seconds, status, resident_mb = 0.0, 0, 0.0
        linux.kill(init or pid, signal.SIGKILL)  # SIGKILL to init kills all processes of its pid namespace
        remaining = {pid, init} - {0}
        while remaining:  # init exits after the last process of the run
            reaped_pid, wait_status, usage = os.wait4(-1, linux.WAIT_ALL)
            remaining.discard(reaped_pid)
            cpu_seconds += usage.ru_utime + usage.ru_stime
            if reaped_pid == pid:
                status, resident_mb = wait_status, usage.ru_maxrss / 1024
        if not init:
            cpu_seconds += self._tree.kill()
        return status, cpu_seconds, resident_mb
