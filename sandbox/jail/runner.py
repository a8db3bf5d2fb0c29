"""Runs programs in zygotes, one at a time, and says how they ended. What a worker judges with.

A runner has a cgroup and several kinds of zygote: a plain one, one that has numpy loaded, and for compilers one each
whose file system has what they need.
"""

import contextlib
import os
import shutil
import signal
from dataclasses import dataclass, field, replace
from typing import Any

from sandbox import languages
from sandbox.errors import BackendUnavailable, ExecutionLost
from sandbox.jail import cgroups, files, leftovers, linux
from sandbox.jail.child import COMPILER_BROKEN, Job
from sandbox.jail.compiled import Compilations, Compiled, memfd
from sandbox.jail.spawn import Zygote, ZygoteLost
from sandbox.program import Limits, Outcome, Program, RunResult

ATTEMPTS = 3  # at a run that the sandbox lost, before it says so
_PATIENCE = 6  # times the wall limit until a zygote counts as hung; it gives up itself after 5
_PATIENCE_SECONDS = 30
_LOST_ZYGOTE = "the zygote was lost"
_COMPILE_LIMITS = Limits(wall_seconds=20, memory_mb=1024, output_kb=64 * 1024, disk_mb=256)
_COMPILER_WORDS = 1 << 16  # bytes of what a compiler says that are kept
_SOURCE_BYTES = 16 << 20
_PLAIN, _NUMPY = "plain", "numpy"  # kinds of zygote; the others are called as the language that they compile
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
    shared: str = ""  # directory in which the workers of a Sandbox share what took long to compile
    alone: bool = False  # nobody but the worker and its runs is in its cgroup: it has a container to itself


@dataclass(frozen=True, slots=True)
class Order:
    """What a zygote is asked to do, with each input in turn."""

    program: Program
    job: Job
    packed: bytes = b""  # files to be found by the run, see files.pack
    encoded: bytes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "encoded", self.job.to_bytes())

    def within(self, wall_seconds: float, cpu_seconds: float | None = None) -> "Order":
        cpu_seconds = cpu_seconds or self.job.cpu_seconds
        if (wall_seconds, cpu_seconds) == (self.job.wall_seconds, self.job.cpu_seconds):
            return self
        job = replace(self.job, wall_seconds=wall_seconds, cpu_seconds=cpu_seconds)
        return Order(self.program, job, self.packed)

    def with_arguments(self, arguments: tuple[str, ...]) -> "Order":
        return Order(self.program, replace(self.job, arguments=arguments), self.packed)

    def with_fetched(self, names: tuple[str, ...]) -> "Order":
        return Order(self.program, replace(self.job, fetch=names), self.packed)

    def with_files(self, contents: dict[str, bytes]) -> "Order":
        """With these files in the run's directory, and room for them."""
        more_mb = 1 + sum(map(len, contents.values())) // 2**20 + len(contents) // 50  # these need inodes, too
        memory_mb, disk_mb = self.job.memory_mb + 2 * more_mb, self.job.disk_mb + more_mb
        job = replace(self.job, files=True, memory_mb=memory_mb, disk_mb=disk_mb)
        return Order(self.program, job, files.pack(contents))


@dataclass(frozen=True, slots=True)
class Pipes:
    """Standard input and output of a program that talks to another; closed here once its zygote has them."""

    stdin: int
    stdout: int


class Runner:
    """ends: events upon which a run in progress is given up, descriptor -> poll mask. name: tells the cgroups of the
    runners of one process apart.

    Raises BackendUnavailable if the machine cannot isolate as configured.
    """

    def __init__(self, configuration: Configuration, ends: dict[int, int], name: str) -> None:
        self._configuration = configuration
        self._ends = ends
        self._zygotes: dict[str, Zygote] = {}
        self._compilations = Compilations(configuration.shared)
        self._sound: set[str] = set()  # languages whose self-test has passed
        self.ended = 0.0  # when the last run did, in monotonic seconds
        self._namespaces = True
        self._work = ""  # directory for runs; only where there are no namespaces
        self._cgroup: cgroups.Cgroup | None = None
        self._no_cgroup = self._no_namespaces = ""
        try:
            self._cgroup = cgroups.create(name)
        except OSError as error:
            self._no_cgroup = str(error)
        self._surroundings: cgroups.Surroundings | None = None
        if configuration.alone:
            with contextlib.suppress(OSError):
                self._surroundings = cgroups.Surroundings()
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
                self._zygote(_PLAIN)
            except cgroups.CannotJoin as error:
                assert self._cgroup is not None
                self._cgroup.remove()
                self._cgroup, self._no_cgroup = None, str(error)
            except ZygoteLost as error:  # killed while it started: that says nothing about the machine
                lost += 1
                if lost == ATTEMPTS:
                    raise BackendUnavailable(f"a zygote ended {lost} times while it started: {error}") from error
            except (BackendUnavailable, OSError) as error:
                if self._configuration.full_isolation or not self._namespaces:
                    raise BackendUnavailable(f"cannot isolate programs on this machine: {error}. {_HINT}") from error
                self._namespaces, self._no_namespaces = False, str(error)
                linux.prctl(linux.PR_SET_DUMPABLE, 0)  # programs have our uid, and could read what we hold
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
            **self._zygotes[_PLAIN].layers,
            "memory": f"cgroup v{self._cgroup.version}" if self._cgroup else f"{tree} ({self._no_cgroup})",
            "number of processes": f"cgroup v{self._cgroup.version}" if self._cgroup else "RLIMIT_NPROC",
            "time": "cpu and wall clock of the tree; time without a processor is not counted",
            "numpy": "yes" if self._configuration.numpy else "none: not installed beside the sandbox",
        }

    def order(self, op: str, program: Program, limits: Limits, entry_point: str = "") -> Order:
        """Raises ValueError where there is no such language, or it cannot do that."""
        if op == "call" and not languages.load(program.language).CALLABLE:
            raise ValueError(
                f"functions of {program.language} programs cannot be called; use a suite without entry_point"
            )
        if len(program.source) > _SOURCE_BYTES:
            raise ValueError(f"a program must be shorter than {_SOURCE_BYTES >> 20} MB")
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
            disk_mb=limits.disk_mb + (4 * len(program.source) >> 20),
        )
        return Order(program, job)

    def run(self, order: Order, stdin: bytes) -> RunResult:
        """Raises ExecutionLost if the sandbox fails at it time and again, BackendUnavailable without a compiler."""
        compiled = self.compile(order.program)
        return compiled if isinstance(compiled, RunResult) else self.execute(order, compiled, stdin)

    def compile(self, program: Program) -> Compiled | RunResult:
        """The compiled program, or why there is none; kept for the next case. Raises as run does."""
        known = self._compilations.find(program)
        if known is not None:
            return known
        self._check_language(program.language)
        source = memfd(program.source.encode("utf-8", "surrogatepass"))
        try:
            order = self.order("compile", program, _COMPILE_LIMITS)
            result = self.execute(order, Compiled(source, source), b"")
        finally:
            os.close(source)
        if result.outcome is Outcome.EXITED and result.exit_code == COMPILER_BROKEN:
            raise ExecutionLost(f"the compiler of {program.language} did not start: {result.stderr.decode()}")
        if result.outcome is Outcome.EXITED and result.exit_code == 0 and result.returned:
            return self._compilations.add(program, result, result.returned)
        words = result.stderr[:_COMPILER_WORDS] or f"the compiler ended: {result.outcome.value}".encode()
        failed = replace(result, outcome=Outcome.NOT_COMPILED, stdout=b"", stderr=words, returned=None)
        if result.outcome is Outcome.EXITED:  # else the machine may have had a part in it
            self._compilations.add_failure(program, failed)
        return failed

    def _check_language(self, name: str) -> None:
        """See once that a language with a compiler works here: where none of its programs does, it is not their fault.

        Raises BackendUnavailable.
        """
        language = languages.load(name)
        if name in self._sound:
            return
        try:
            if not language.toolchain():
                return
        except LookupError as error:
            raise BackendUnavailable(f"cannot compile {name}: {error}") from error
        self._sound.add(name)
        try:
            result = self.run(self.order("run", Program(language.SELF_TEST, name), Limits()), b"3 4\n")
            if result.outcome is not Outcome.EXITED or result.stdout.strip() != b"7":
                words = result.stderr.decode("utf-8", "replace").strip()[:500]
                raise BackendUnavailable(f"a trivial {name} program does not work: {result.outcome.value} {words}")
        except BaseException:
            self._sound.discard(name)
            raise

    def execute(self, order: Order, compiled: Compiled, stdin: bytes) -> RunResult:
        """Raises ExecutionLost."""
        reason = ""
        for _ in range(ATTEMPTS):
            result = self.attempt(order, compiled, stdin)
            if isinstance(result, RunResult):
                return result
            reason = result
        if reason.startswith(_LOST_ZYGOTE) and not self._namespaces:
            # Without namespaces a program can kill its zygote, and no other program has done so three times.
            return RunResult(Outcome.VIOLATION, -signal.SIGKILL, b"", reason.encode(), 0, 0, 0)
        raise ExecutionLost(f"a run was lost {ATTEMPTS} times: {reason}")

    def attempt(self, order: Order, compiled: Compiled, stdin: bytes | Pipes) -> RunResult | str:
        """One attempt at a run; a string says why nothing is known about it."""
        opened = [stdin.stdin, stdin.stdout] if isinstance(stdin, Pipes) else [memfd(stdin), memfd()]
        job = order.job
        stdout, stderr = opened[1], memfd()
        returned = memfd() if job.op != "run" else -1
        packed = memfd(order.packed) if job.files else -1
        fetched = memfd() if job.fetch else -1
        opened += [descriptor for descriptor in (stderr, returned, packed, fetched) if descriptor >= 0]
        try:
            kind = self._kind(order)
            try:
                zygote = self._zygote(kind)
                if self._cgroup is not None:
                    self._cgroup.begin(job.memory_mb, job.processes)
                elif self._surroundings is not None:
                    self._surroundings.begin()
                artifact = compiled.artifact
                if zygote.shares_uid and job.op == "run" and languages.load(job.language).EXECUTABLE:
                    # Its owner can write messages to the next run into the file's attributes: one for each run.
                    artifact = memfd(_read(artifact), sealed=True)
                    opened.append(artifact)
                zygote.begin(order.encoded, [compiled.source, artifact, *opened[: len(opened) - (artifact in opened)]])
                if isinstance(stdin, Pipes):  # now, or the other side would never see an end
                    stdout = -1
                    for descriptor in (stdin.stdin, stdin.stdout):
                        opened.remove(descriptor)
                        os.close(descriptor)
                answer = zygote.end(_PATIENCE * job.wall_seconds + _PATIENCE_SECONDS)
            except ZygoteLost as error:
                if kind in self._zygotes:
                    self._zygotes.pop(kind).close()
                return f"{_LOST_ZYGOTE}: {error}"
            self.ended = answer["ended"]
            peak_mb, out_of_memory = None, False
            try:
                if self._cgroup is not None:
                    peak_mb, out_of_memory = self._cgroup.end()
                elif self._surroundings is not None:
                    out_of_memory = self._surroundings.end()
            except OSError as error:
                return str(error)
            out_of_memory = out_of_memory or answer["ended_by"] == "memory"
            if "lost" in answer and not out_of_memory:
                return str(answer["lost"])
            if answer["ended_by"] == "starved":
                return "the machine gave the program hardly any processor time"
            printed, said = _read(stdout), _read(stderr)
            exit_code = os.waitstatus_to_exitcode(answer["status"])
            longest = max(len(printed), len(said))
            return RunResult(
                Outcome.OUT_OF_MEMORY if out_of_memory else _outcome(job, answer, exit_code, longest, said),
                exit_code,
                printed,
                said,
                answer["cpu_seconds"],
                answer["wall_seconds"],
                answer["max_resident_mb"] if peak_mb is None else peak_mb,
                _read(returned) if returned >= 0 else None,
                files.unpack(_read(fetched)) if fetched >= 0 else {},
            )
        finally:
            for descriptor in opened:
                os.close(descriptor)

    def make_ready(self, order: Order) -> None:
        """Start the zygote that the order needs, if it is not there. Raises ZygoteLost."""
        self._zygote(self._kind(order))

    def _kind(self, order: Order) -> str:
        if order.job.op == "compile":
            return order.program.language if languages.load(order.program.language).toolchain() else _PLAIN
        interpreted = not languages.load(order.program.language).EXECUTABLE
        with_numpy = interpreted and self._configuration.numpy and "numpy" in order.program.source
        return _NUMPY if with_numpy else _PLAIN

    def _zygote(self, kind: str) -> Zygote:
        if kind not in self._zygotes:
            zygote = Zygote(
                packages=self._configuration.numpy if kind == _NUMPY else {},
                toolchain=languages.load(kind).toolchain() if kind in languages.names() else [],
                namespaces=self._namespaces,
                full=self._configuration.full_isolation,
                work=self._work and self._directory(kind),
                seed=self._configuration.seed,
                cgroup=self._cgroup,
            )
            zygote.watch(self._ends)
            self._zygotes[kind] = zygote
        return self._zygotes[kind]

    def _directory(self, kind: str) -> str:
        """For the runs of one zygote: while another one is at work, it empties its own."""
        path = os.path.join(self._work, kind)
        os.makedirs(path, 0o700, exist_ok=True)
        return path

    def close(self) -> None:
        for zygote in self._zygotes.values():
            zygote.close()
        if self._cgroup is not None:
            self._cgroup.remove()
        if self._work:
            shutil.rmtree(self._work, ignore_errors=True)


def _outcome(job: Job, answer: dict[str, Any], exit_code: int, longest_output: int, stderr: bytes) -> Outcome:
    if longest_output >= job.output_bytes or exit_code == -signal.SIGXFSZ:
        return Outcome.OUTPUT_LIMIT
    # The last hundredth covers how coarsely the kernel counts; the last tenth that its limit counts otherwise.
    if answer["ended_by"] == "time" or answer["cpu_seconds"] > job.cpu_seconds + 0.01:
        return Outcome.TIMED_OUT
    if exit_code == -signal.SIGXCPU or (exit_code == -signal.SIGKILL and answer["cpu_seconds"] > 0.9 * job.cpu_seconds):
        return Outcome.TIMED_OUT
    if exit_code == -signal.SIGSYS:
        return Outcome.VIOLATION
    if exit_code == -signal.SIGABRT and b"std::bad_alloc" in stderr[-4000:]:
        return Outcome.OUT_OF_MEMORY
    if exit_code < 0:
        return Outcome.SIGNALLED
    if exit_code != 0 and not languages.load(job.language).EXECUTABLE and _died_of_memory(stderr):
        return Outcome.OUT_OF_MEMORY
    return Outcome.EXITED


def _died_of_memory(stderr: bytes) -> bool:
    """Whether an interpreter's last words are MemoryError or one of its kind."""
    words = stderr[-4000:].rstrip().rsplit(b"\n", 1)[-1].split(b":")[0]
    return words.endswith(b"MemoryError")


def _read(descriptor: int) -> bytes:
    """All of a file; nothing if there is none (-1)."""
    size, data = os.fstat(descriptor).st_size if descriptor >= 0 else 0, b""
    while len(data) < size:
        data += os.pread(descriptor, size - len(data), len(data))
    return data
