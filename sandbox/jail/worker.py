"""A worker process: trusted, outside the namespaces, one run at a time.

It holds the suite, hands inputs to its zygote one by one, reads what came out and gives the verdicts. It lives as
long as the process that started it, and takes zygote, runs and cgroup with it when it goes.
"""

import os
import select
import shutil
import signal
import sys
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any

from sandbox import languages
from sandbox.cases import Case, Suite
from sandbox.errors import BackendUnavailable, ExecutionLost, SandboxError
from sandbox.jail import cgroups, leftovers, wire
from sandbox.jail.child import Job
from sandbox.jail.spawn import Zygote, ZygoteLost
from sandbox.judge import Judgement, judge
from sandbox.program import Invocation, Limits, Outcome, Program, RunResult

_ATTEMPTS = 3  # at a run that the sandbox lost, before it says so
_PATIENCE = 6  # times the wall limit until a zygote counts as hung; it gives up itself after 5
_LOST_ZYGOTE = "the zygote was lost"
_COMPILED = 32  # submissions whose artifacts are kept
_COMPILE_LIMITS = Limits(wall_seconds=20, memory_mb=1024)
_HINT = (
    "User namespaces must be allowed (sysctl user.max_user_namespaces above 0, and on Ubuntu"
    " kernel.apparmor_restrict_unprivileged_userns=0; a container needs --privileged or --security-opt"
    ' seccomp=unconfined apparmor=unconfined). To run with weaker isolation, say isolation="best-effort"'
    " (--isolation best-effort)."
)


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a worker is told at its start."""

    full_isolation: bool
    seed: int | None
    numpy: dict[str, str]  # directories that make up the package: name -> host path; empty if there is none


@dataclass(frozen=True, slots=True)
class _Order:
    """What a zygote is asked to do, with each input in turn."""

    job: Job
    encoded: bytes
    program: Program

    def within(self, wall_seconds: float) -> "_Order":
        if wall_seconds == self.job.wall_seconds:
            return self
        job = replace(self.job, wall_seconds=wall_seconds)
        return _Order(job, job.to_bytes(), self.program)


@dataclass(frozen=True, slots=True)
class _Compiled:
    """Descriptors of a program's text and of what the compiler made of it."""

    source: int
    artifact: int


class Worker:
    """ends: events upon which a run in progress is given up, descriptor -> poll mask.

    Raises BackendUnavailable if the machine cannot isolate as configured.
    """

    def __init__(self, configuration: Configuration, ends: dict[int, int]) -> None:
        self._configuration = configuration
        self.ends = ends
        self._zygotes: dict[bool, Zygote] = {}  # with numpy, without
        self._compiled: OrderedDict[Program, _Compiled | RunResult] = OrderedDict()
        self._namespaces = True
        self._work = ""  # directory for runs; only where there are no namespaces
        self._cgroup: cgroups.Cgroup | None = None
        self._no_cgroup = self._no_namespaces = ""
        try:
            self._cgroup = cgroups.create()
        except OSError as error:
            self._no_cgroup = str(error)
        try:
            self._settle()
        except BaseException:
            self.close()
            raise

    def _settle(self) -> None:
        """Start the first zygote with as much isolation as there is, but no less than was asked for."""
        lost = 0
        while not self._zygotes:
            try:
                self._zygote(with_numpy=False)
            except cgroups.CannotJoin as error:
                assert self._cgroup is not None
                self._cgroup.remove()
                self._cgroup, self._no_cgroup = None, str(error)
            except ZygoteLost as error:  # killed while it started: that says nothing about the machine
                lost += 1
                if lost == _ATTEMPTS:
                    raise BackendUnavailable(f"a zygote ended {lost} times while it started: {error}") from error
            except (BackendUnavailable, OSError) as error:
                if self._configuration.full_isolation or not self._namespaces:
                    raise BackendUnavailable(f"cannot isolate programs on this machine: {error}. {_HINT}") from error
                self._namespaces, self._no_namespaces = False, str(error)
                self._work = leftovers.make_directory()

    @property
    def layers(self) -> dict[str, str]:
        """What isolates a run, by name, and how."""
        missing = "" if self._namespaces else f"none: {self._no_namespaces}"
        tree = "resident memory of the tree, looked at 20 times a second; address space of each process"
        return {
            "user": missing or "",
            "processes": missing or "pid namespace for each run; the whole tree is killed and reaped",
            "files": missing or "read-only root with the standard library alone; fresh /tmp and /proc for each run",
            "network": missing or "empty network namespace; sockets other than AF_UNIX refused",
            "ipc": missing or "ipc namespace; objects that outlive their process refused",
            "host name": missing or "uts namespace",
            "privileges": "no new privileges, scrubbed environment, three descriptors",
            **self._zygotes[False].layers,
            "memory": f"cgroup v{self._cgroup.version}" if self._cgroup else f"{tree} ({self._no_cgroup})",
            "number of processes": f"cgroup v{self._cgroup.version}" if self._cgroup else "RLIMIT_NPROC",
            "time": "cpu and wall clock of the tree; time without a processor is not counted",
            "numpy": "yes" if self._configuration.numpy else "none: not installed beside the sandbox",
        }

    def judge(self, program: Program, suite: Suite, *, run_all: bool) -> Judgement:
        """Raises ExecutionLost, and as judge.judge does."""
        op = "run" if suite.entry_point is None else "call"
        order = self._order(op, program, suite.limits, suite.entry_point or "")

        def run_case(case: Case, wall_seconds: float) -> RunResult:
            data = case.input.encode("utf-8", "surrogatepass")
            return self._run(order.within(wall_seconds), data)

        return judge(suite, run_case, run_all=run_all)

    def run(self, program: Program, invocation: Invocation, limits: Limits) -> RunResult:
        """Run a program once. Raises ExecutionLost if the sandbox fails at it time and again."""
        return self._run(self._order("run", program, limits, ""), invocation.stdin)

    def _order(self, op: str, program: Program, limits: Limits, entry_point: str) -> "_Order":
        languages.check(program.language)
        job = Job(
            op=op,
            language=program.language,
            entry_point=entry_point,
            seed=self._configuration.seed,
            wall_seconds=limits.wall_seconds,
            cpu_seconds=limits.cpu_seconds or limits.wall_seconds,
            memory_mb=limits.memory_mb,
            processes=limits.processes,
            output_bytes=limits.output_kb * 1024,
            disk_mb=limits.disk_mb,
        )
        return _Order(job, job.to_bytes(), program)

    def _run(self, order: "_Order", stdin: bytes) -> RunResult:
        compiled = self._compile(order.program)
        return compiled if isinstance(compiled, RunResult) else self._execute(order, compiled, stdin)

    def _compile(self, program: Program) -> "_Compiled | RunResult":
        """The compiled program, or why there is none; kept for the next case."""
        known = self._compiled.get(program)
        if known is not None:
            self._compiled.move_to_end(program)
            return known
        source = _memfd(program.source.encode("utf-8", "surrogatepass"))
        result = self._execute(self._order("compile", program, _COMPILE_LIMITS, ""), _Compiled(source, source), b"")
        compiled: _Compiled | RunResult
        if result.outcome is Outcome.EXITED and result.exit_code == 0 and result.returned:
            compiled = _Compiled(source, _memfd(result.returned))
        else:
            os.close(source)
            words = result.stderr or f"the compiler ended: {result.outcome.value}".encode()
            compiled = replace(result, outcome=Outcome.NOT_COMPILED, stdout=b"", stderr=words, returned=None)
        self._compiled[program] = compiled
        if len(self._compiled) > _COMPILED:
            _, oldest = self._compiled.popitem(last=False)
            if isinstance(oldest, _Compiled):
                os.close(oldest.source)
                os.close(oldest.artifact)
        return compiled

    def _execute(self, order: "_Order", compiled: "_Compiled", stdin: bytes) -> RunResult:
        reason = ""
        for _ in range(_ATTEMPTS):
            fresh = [_memfd(stdin), _memfd(), _memfd()] + ([_memfd()] if order.job.op != "run" else [])
            try:
                result = self._attempt(order, [compiled.source, compiled.artifact, *fresh])
            finally:
                for descriptor in fresh:
                    os.close(descriptor)
            if isinstance(result, RunResult):
                return result
            reason = result
        if reason.startswith(_LOST_ZYGOTE) and not self._namespaces:
            # Without namespaces a program can kill its zygote, and no other program has done so three times.
            return RunResult(Outcome.VIOLATION, -signal.SIGKILL, b"", reason.encode(), 0, 0, 0)
        raise ExecutionLost(f"a run was lost {_ATTEMPTS} times: {reason}")

    def _attempt(self, order: "_Order", files: list[int]) -> RunResult | str:
        """One attempt at a run; a string says why nothing is known about it."""
        job = order.job
        with_numpy = job.op != "compile" and "numpy" in order.program.source
        try:
            zygote = self._zygote(with_numpy=with_numpy)
            if self._cgroup is not None:
                self._cgroup.begin(job.memory_mb, job.processes)
            answer = zygote.run(order.encoded, files, _PATIENCE * job.wall_seconds + 30)
        except ZygoteLost as error:
            if with_numpy in self._zygotes:
                self._zygotes.pop(with_numpy).close()
            return f"{_LOST_ZYGOTE}: {error}"
        try:
            peak_mb, out_of_memory = self._cgroup.end() if self._cgroup is not None else (None, False)
        except OSError as error:
            return str(error)
        out_of_memory = out_of_memory or answer["ended_by"] == "memory"
        if "lost" in answer and not out_of_memory:
            return str(answer["lost"])
        if answer["ended_by"] == "starved":
            return "the machine gave the program hardly any processor time"
        stdout, stderr = _read(files[3]), _read(files[4])
        exit_code = os.waitstatus_to_exitcode(answer["status"])
        longest = max(len(stdout), len(stderr))
        return RunResult(
            Outcome.OUT_OF_MEMORY if out_of_memory else _outcome(job, answer, exit_code, longest, stderr),
            exit_code,
            stdout,
            stderr,
            answer["cpu_seconds"],
            answer["wall_seconds"],
            answer["max_resident_mb"] if peak_mb is None else peak_mb,
            _read(files[5]) if len(files) > 5 else None,
        )

    def _zygote(self, *, with_numpy: bool) -> Zygote:
        with_numpy = with_numpy and bool(self._configuration.numpy)
        if with_numpy not in self._zygotes:
            self._zygotes[with_numpy] = self._start(self._configuration.numpy if with_numpy else {})
        return self._zygotes[with_numpy]

    def _start(self, packages: dict[str, str]) -> Zygote:
        zygote = Zygote(
            packages=packages,
            namespaces=self._namespaces,
            full=self._configuration.full_isolation,
            work=self._work,
            seed=self._configuration.seed,
            cgroup=self._cgroup,
        )
        zygote.watch(self.ends)
        return zygote

    def close(self) -> None:
        for zygote in self._zygotes.values():
            zygote.close()
        if self._cgroup is not None:
            self._cgroup.remove()
        if self._work:
            shutil.rmtree(self._work, ignore_errors=True)


def _outcome(job: Job, answer: dict[str, Any], exit_code: int, longest_output: int, stderr: bytes) -> Outcome:
    if longest_output >= job.output_bytes:
        return Outcome.OUTPUT_LIMIT
    # The last hundredth covers how coarsely the kernel counts; the last tenth that its limit counts otherwise.
    if answer["ended_by"] == "time" or answer["cpu_seconds"] > job.cpu_seconds + 0.01:
        return Outcome.TIMED_OUT
    if exit_code == -signal.SIGXCPU or (exit_code == -signal.SIGKILL and answer["cpu_seconds"] > 0.9 * job.cpu_seconds):
        return Outcome.TIMED_OUT
    if exit_code == -signal.SIGSYS:
        return Outcome.VIOLATION
    if exit_code < 0:
        return Outcome.SIGNALLED
    if exit_code != 0 and _died_of_memory(stderr):
        return Outcome.OUT_OF_MEMORY
    return Outcome.EXITED


def _died_of_memory(stderr: bytes) -> bool:
    """Whether an interpreter's last words are MemoryError or one of its kind."""
    words = stderr[-4000:].rstrip().rsplit(b"\n", 1)[-1].split(b":")[0]
    return words.endswith(b"MemoryError")


def _memfd(data: bytes = b"") -> int:
    descriptor = os.memfd_create("run")
    written = 0
    while written < len(data):
        written += os.pwrite(descriptor, data[written:] if written else data, written)
    return descriptor


def _read(descriptor: int) -> bytes:
    size, data = os.fstat(descriptor).st_size, b""
    while len(data) < size:
        data += os.pread(descriptor, size - len(data), len(data))
    return data


def main(socket_fd: int, caller_pid: int) -> None:
    """Serve one caller on this machine until it goes away."""
    try:
        caller_gone = os.pidfd_open(caller_pid)
    except ProcessLookupError:
        return
    serve(wire.Channel(socket_fd, socket_fd), {caller_gone: select.POLLIN, socket_fd: select.POLLRDHUP})


def serve(channel: wire.Channel, ends: dict[int, int]) -> None:
    """Serve one caller until it goes away, which one of `ends` tells: descriptor -> poll mask."""
    sys.set_int_max_str_digits(0)
    configuration: Configuration = channel.receive()
    try:
        worker = Worker(configuration, ends)
    except BackendUnavailable as error:
        channel.send(error)
        return
    _look_every_second(worker)
    try:
        channel.send(worker.layers)
        while True:
            channel.send(_answer(worker, channel.receive()))
    except (EOFError, ConnectionError):
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        worker.close()


def _look_every_second(worker: Worker) -> None:
    """Look whether the caller is gone also while we compute, and end if so."""

    def look(*_: object) -> None:
        poll = select.poll()
        for descriptor, mask in worker.ends.items():
            poll.register(descriptor, mask)
        if poll.poll(0):
            raise SystemExit

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, 1, 1)


def _answer(worker: Worker, request: tuple[Any, ...]) -> Any:
    try:
        match request:
            case ("run", program, invocation, limits):
                return worker.run(program, invocation, limits)
            case ("judge", program, suite, run_all):
                return worker.judge(program, suite, run_all=run_all)
    except (SandboxError, OSError) as error:
        return ExecutionLost(str(error))
    except (ValueError, TypeError, KeyError) as error:
        return error  # the suite's fault: the caller raises it
    raise ValueError(f"unknown request {request[0]!r}")
