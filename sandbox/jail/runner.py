"""Runs programs in zygotes, one at a time, and says how they ended. What a worker judges with.

A runner has a cgroup and several kinds of zygote: a plain one, one that has numpy loaded, the same for referees, and
for compilers one each whose file system has what they need.
"""

import contextlib
import logging
import os
import signal
import time
from dataclasses import dataclass, field, replace
from typing import Any

from sandbox import languages
from sandbox.errors import BackendUnavailable, ExecutionLost, KilledFromOutside
from sandbox.jail import cgroups, files
from sandbox.jail.child import COMPILER_BROKEN, COMPILER_KILLED, Instructions, Job
from sandbox.jail.compiled import Compilations, Compiled, memfd
from sandbox.jail.configuration import HINT, Configuration
from sandbox.jail.outcome import Memory, outcome_of
from sandbox.jail.spawn import Kind
from sandbox.jail.warden import Warden
from sandbox.jail.zygotes import Zygote, ZygoteLost
from sandbox.program import Limits, Outcome, Program, RunResult

log = logging.getLogger(__name__)

ATTEMPTS = 3  # at a run that the sandbox lost, before it says so
_PATIENCE = 6  # times the wall limit until a zygote counts as hung; it gives up itself after 5
_PATIENCE_SECONDS = 30
_LOST_ZYGOTE = "the zygote was lost"
_PARALLEL_SECONDS = 0.05  # of CPU time beyond the wall time: less cannot have used up what a period of 0.1 s has
_COMPILE_LIMITS = Limits(wall_seconds=20, memory_mb=1024, output_kb=64 * 1024, disk_mb=256)
_COMPILER_WORDS = 1 << 16  # bytes of what a compiler says that are kept
_LONGEST_SOURCE = 16 << 20
_SOURCE_SHARE = 4  # of a run's memory its own text may take one part of so many: it lies in the run's /tmp
_WITHOUT_CGROUP = (
    "resident memory of the tree, looked at 20 times a second, and the address space of each process; not what the"
    " kernel holds for them, such as the buffers of sockets and pipes",
    "RLIMIT_NPROC, which counts all processes of the same user together",
    "CPU time alone, not how many processors at once",
)


@dataclass(frozen=True, slots=True)
class Order:
    """What a zygote is asked to do, with each input in turn."""

    program: Program
    job: Job
    instructions: Instructions = Instructions()
    packed: bytes = b""  # files to be found by the run, see files.pack
    referee: bool = False  # it belongs to the suite, and shares no zygote with submissions
    encoded: bytes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "encoded", self.job.to_bytes())

    def within(self, wall_seconds: float, cpu_seconds: float | None = None) -> "Order":
        cpu_seconds = cpu_seconds or self.job.cpu_seconds
        if (wall_seconds, cpu_seconds) == (self.job.wall_seconds, self.job.cpu_seconds):
            return self
        return replace(self, job=replace(self.job, wall_seconds=wall_seconds, cpu_seconds=cpu_seconds))

    def instructed(self, instructions: Instructions) -> "Order":
        if instructions == Instructions():
            return self
        job = replace(self.job, instructions=True, fetch=bool(instructions.fetch))
        return replace(self, job=job, instructions=instructions)

    def with_files(self, contents: dict[str, bytes]) -> "Order":
        """With these files in the run's directory, and room for them."""
        more_mb = 1 + sum(map(len, contents.values())) // 2**20 + len(contents) // 50  # these need inodes, too
        memory_mb, disk_mb = self.job.memory_mb + 2 * more_mb, self.job.disk_mb + more_mb
        job = replace(self.job, files=True, memory_mb=memory_mb, disk_mb=disk_mb)
        return replace(self, job=job, packed=files.pack(contents))


@dataclass(frozen=True, slots=True)
class Pipes:
    """Standard input and output of a program that talks to another; closed here once its zygote has them."""

    stdin: int
    stdout: int


class Runner:
    """cgroup: that of the runs, or why there is none. place: its number at the warden. ends: events upon which a run in
    progress is given up, descriptor -> poll mask.

    Raises BackendUnavailable if the machine cannot isolate as configured.
    """

    def __init__(
        self,
        configuration: Configuration,
        warden: Warden,
        cgroup: cgroups.Cgroup | str,
        place: int,
        ends: dict[int, int],
    ) -> None:
        self._configuration = configuration
        self._warden = warden
        self._place = place
        self._ends = ends
        self._zygotes: dict[Kind, Zygote] = {}
        self._compilations = Compilations(warden if configuration.shared else None)
        self._sound: set[str] = set()  # languages whose self-test has passed
        self.ended = 0.0  # when the last run did, in monotonic seconds
        self.was_killed = False  # whether it was by SIGKILL, for no reason that we know
        self._namespaces = not configuration.no_namespaces
        self._cgroup = None if isinstance(cgroup, str) else cgroup
        self._no_cgroup = cgroup if isinstance(cgroup, str) else ""
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
        """Start the first zygote, with a cgroup if it can join one."""
        lost = 0
        while not self._zygotes:
            try:
                self._zygote(Kind())
            except cgroups.CannotJoin as error:
                self._cgroup, self._no_cgroup = None, str(error)
            except ZygoteLost as error:  # killed while it started: that says nothing about the machine
                lost += 1
                if lost == ATTEMPTS:
                    raise BackendUnavailable(f"a zygote ended {lost} times while it started: {error}") from error
            except (BackendUnavailable, OSError) as error:
                raise BackendUnavailable(f"cannot isolate programs on this machine: {error}. {HINT}") from error

    @property
    def layers(self) -> dict[str, str]:
        """What isolates a run, by name, and how."""
        missing = "" if self._namespaces else f"none: {self._configuration.no_namespaces}"
        memory, processes, processors = (f"best-effort: {how}" for how in _WITHOUT_CGROUP)
        memory = f"{memory}. No cgroup: {self._no_cgroup}"
        if self._cgroup:
            memory = processes = processors = f"cgroup v{self._cgroup.version}"
            if not self._cgroup.bounds_cpu:
                processors = f"best-effort: {_WITHOUT_CGROUP[2]}: the cgroup has no cpu controller"
        elif self._surroundings is not None:  # each worker has a container, with bounds for all that is in it
            memory, processes, processors = (f"the container's bounds; {how}" for how in _WITHOUT_CGROUP)
        return {
            "user": missing or "",
            "processes": missing or "pid namespace for each run; the whole tree is killed and reaped",
            "files": missing or "read-only copy of the standard library in memory; fresh /tmp and /proc for each run",
            "network": missing or "empty network namespace; sockets other than AF_UNIX refused",
            "ipc": missing or "ipc namespace; objects that outlive their process refused",
            "host name": missing or "uts namespace",
            "privileges": "no new privileges, scrubbed environment, three descriptors",
            **self._zygotes[Kind()].layers,
            "memory": memory,
            "number of processes": processes,
            "processors": processors,
            "time": "cpu and wall clock of the tree; time without a processor is not counted",
            "numpy": "yes" if self._configuration.numpy else "none: not installed beside the sandbox",
        }

    def order(
        self, op: str, program: Program, limits: Limits, entry_point: str = "", *, referee: bool = False
    ) -> Order:
        """Raises ValueError where there is no such language, or it cannot do that."""
        if op == "call" and not languages.load(program.language).CALLABLE:
            raise ValueError(
                f"functions of {program.language} programs cannot be called; use a suite without entry_point"
            )
        job = Job(
            op=op,
            language=program.language,
            seed=self._configuration.seed,
            wall_seconds=limits.wall_seconds,
            cpu_seconds=limits.cpu_seconds or limits.wall_seconds,
            memory_mb=limits.memory_mb,
            processes=limits.processes,
            output_bytes=limits.output_kb * 1024,
            disk_mb=limits.disk_mb + (4 * len(program.source) >> 20),
        )
        return Order(program, job, referee=referee).instructed(Instructions(entry_point))

    def run(self, order: Order, stdin: bytes) -> RunResult:
        """Raises ExecutionLost if the sandbox fails at it time and again, BackendUnavailable without a compiler."""
        compiled = self.compile(order.program)
        return compiled if isinstance(compiled, RunResult) else self.execute(order, compiled, stdin)

    def compile(self, program: Program) -> Compiled | RunResult:
        """The compiled program, or why there is none; kept for the next case. Raises as run does."""
        if len(program.source) > _LONGEST_SOURCE:  # no error of the caller's: the program's author chose its length
            words = f"a program must be shorter than {_LONGEST_SOURCE >> 20} million characters".encode()
            return RunResult(Outcome.NOT_COMPILED, 1, b"", words, 0, 0, 0)
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
        if result.outcome is Outcome.EXITED and result.exit_code == COMPILER_KILLED:
            # Not for its memory or time, which are outcomes of their own.
            raise KilledFromOutside(f"the compiler of {program.language}, or a part of it, was killed from outside")
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
        """Raises ExecutionLost, and its kind KilledFromOutside."""
        reason, was_killed = "", False
        for _ in range(ATTEMPTS):
            result = self.attempt(order, compiled, stdin)
            if isinstance(result, RunResult):
                if not self.was_killed or was_killed:
                    return result
                was_killed = True  # by a process or thread of its own, or from outside: the next time shows it
                continue
            reason = result
        if reason.startswith(_LOST_ZYGOTE) and not self._namespaces:
            # Without namespaces a program can kill its zygote, and no other program has done so three times.
            return RunResult(Outcome.VIOLATION, -signal.SIGKILL, b"", reason.encode(), 0, 0, 0)
        raise ExecutionLost(f"a run was lost {ATTEMPTS} times: {reason}")

    def attempt(self, order: Order, compiled: Compiled, stdin: bytes | Pipes) -> RunResult | str:
        """One attempt at a run; a string says why nothing is known about it."""
        job, kind = order.job, self._kind(order)
        with _Files(order, stdin) as its:
            if job.op != "compile" and os.fstat(compiled.source).st_size > (job.memory_mb << 20) // _SOURCE_SHARE:
                self.ended, self.was_killed = time.monotonic(), False
                words = b"the program's text alone takes too much of its memory"
                return RunResult(Outcome.OUT_OF_MEMORY, -signal.SIGKILL, b"", words, 0, 0, job.memory_mb)
            try:
                zygote = self._begin(kind, job)
                artifact = compiled.artifact
                if zygote.shares_uid and job.op == "run" and languages.load(job.language).EXECUTABLE:
                    # Its owner can write messages to the next run into the file's attributes: one for each run.
                    artifact = its.keep(memfd(_read(artifact), sealed=True))
                zygote.begin(order.encoded, [compiled.source, artifact, *its.handed])
                its.hand_over()
                answer = zygote.end(_PATIENCE * job.wall_seconds + _PATIENCE_SECONDS)
            except ZygoteLost as error:
                if self._cgroup is not None:
                    self._renew()  # what its run was charged for may stay a while
                elif kind in self._zygotes:
                    self._zygotes.pop(kind).close()
                return f"{_LOST_ZYGOTE}: {error}"
            except cgroups.NotIdle as error:
                self._renew()
                return str(error)
            self.ended = answer["ended"]
            try:
                memory = self._end(answer)
            except OSError as error:
                return str(error)
            if "lost" in answer and not memory.exceeded:
                return str(answer["lost"])
            if answer["ended_by"] == "starved":
                return "the machine gave the program hardly any processor time"
            printed, said = _read(its.stdout), _read(its.stderr)
            exit_code = os.waitstatus_to_exitcode(answer["status"])
            outcome = outcome_of(job, answer, exit_code, max(len(printed), len(said)), memory)
            self.was_killed = outcome is Outcome.SIGNALLED and answer["killed"]
            if self.was_killed and answer["killed_from_outside"]:
                raise KilledFromOutside("a run was killed by SIGKILL, which came from outside")
            return RunResult(
                outcome,
                exit_code,
                printed,
                said,
                answer["cpu_seconds"],
                answer["wall_seconds"],
                memory.peak_mb,
                _read(its.result) if its.result >= 0 else None,
                files.unpack(_read(its.fetched)) if its.fetched >= 0 and not memory.exceeded else {},
            )

    def make_ready(self, order: Order) -> None:
        """Start the zygote that the order needs, if it is not there, or if nothing can run beside what is left of
        earlier runs. Raises ZygoteLost."""
        try:
            self._ready(self._kind(order))
        except cgroups.NotIdle as error:
            raise ZygoteLost(str(error)) from error

    def _ready(self, kind: Kind) -> Zygote:
        """A zygote beside which nothing of earlier runs is charged, if need be a new one in a new cgroup.

        Raises ZygoteLost, and NotIdle if that does not help.
        """
        try:
            zygote = self._zygote(kind)
            if self._cgroup is not None:
                self._cgroup.calm()
            return zygote
        except cgroups.NotIdle as error:
            log.info("zygotes are started anew: %s", error)
            self._renew()
            return self._zygote(kind)

    def _begin(self, kind: Kind, job: Job) -> Zygote:
        """The zygote for a run, with the counters and limits of all runs set for this one. Raises as _ready does."""
        zygote = self._ready(kind)
        if self._cgroup is not None:
            self._cgroup.begin(job.memory_mb, job.processes)
        elif self._surroundings is not None:
            self._surroundings.begin()
        return zygote

    def _end(self, answer: dict[str, Any]) -> Memory:
        """What is known of the memory of the run that has just ended.

        Raises OSError if it was killed for the memory that others use.
        """
        exceeded = answer["ended_by"] == "memory"
        if self._cgroup is not None:
            parallel = answer["cpu_seconds"] > answer["wall_seconds"] + _PARALLEL_SECONDS
            used = self._cgroup.end(was_parallel=parallel)
            peak_mb = answer["max_resident_mb"] if used.peak_mb is None else used.peak_mb
            return Memory(peak_mb, exceeded or used.killed, used.hit)
        if self._surroundings is not None:
            exceeded = self._surroundings.end() or exceeded
        return Memory(answer["max_resident_mb"], exceeded, hit=True)  # of address space we cannot tell

    def _renew(self) -> None:
        """Go on with new zygotes in a new cgroup. Raises OSError where none can be made, ZygoteLost."""
        assert self._cgroup is not None
        while self._zygotes:
            self._zygotes.popitem()[1].close()
        self._cgroup.close()
        self._cgroup = self._warden.renew(self._place)

    def _kind(self, order: Order) -> Kind:
        language = languages.load(order.program.language)
        if order.job.op == "compile" and language.toolchain():
            return Kind(compiles=order.program.language)
        interpreted = order.job.op != "compile" and not language.EXECUTABLE
        with_numpy = interpreted and bool(self._configuration.numpy) and "numpy" in order.program.source
        return Kind(numpy=with_numpy, referee=order.referee)

    def _zygote(self, kind: Kind) -> Zygote:
        if kind not in self._zygotes:
            if self._cgroup is not None:
                self._cgroup.make_room()
            zygote = self._warden.start(kind, self._place)
            zygote.watch(self._ends)
            if self._cgroup is not None:
                self._cgroup.settle()
            self._zygotes[kind] = zygote
        return self._zygotes[kind]

    def close(self) -> None:
        for zygote in self._zygotes.values():
            zygote.close()


class _Files:
    """The files of one run: `handed` go to its zygote, the others are ours to read when it has ended; -1: not there.

    What a program gets is opened anew, so that it shares the file with us but no open file description: flags and
    offsets that it sets are its own.
    """

    def __init__(self, order: Order, stdin: bytes | Pipes) -> None:
        job = order.job
        self._opened: list[int] = []
        self.handed: list[int] = []
        self._until_handed: list[int] = []
        self.stdout = self.result = self.fetched = -1
        if isinstance(stdin, Pipes):
            self.handed = self._until_handed = [stdin.stdin, stdin.stdout]
        else:
            self._give(self.keep(memfd(stdin)), os.O_RDONLY)
            self.stdout = self._give(self.keep(memfd()), os.O_RDWR)
        self.stderr = self._give(self.keep(memfd()), os.O_RDWR)
        if job.op != "run":
            self.result = self._give(self.keep(memfd()), os.O_RDWR)
        if job.instructions:
            self._give(self.keep(memfd(order.instructions.to_bytes())), os.O_RDONLY)
        if job.files:
            self._give(self.keep(memfd(order.packed)), os.O_RDONLY)
        if job.fetch:
            self.fetched = self._give(self.keep(memfd()), os.O_RDWR)

    def keep(self, descriptor: int) -> int:
        """Close it when the run is over."""
        self._opened.append(descriptor)
        return descriptor

    def _give(self, descriptor: int, mode: int) -> int:
        self.handed = [*self.handed, self.keep(os.open(f"/proc/self/fd/{descriptor}", mode | os.O_CLOEXEC))]
        return descriptor

    def hand_over(self) -> None:
        """Once the zygote has them: pipes that we held open, too, would never come to an end for the other side."""
        while self._until_handed:
            os.close(self._until_handed.pop())

    def __enter__(self) -> "_Files":
        return self

    def __exit__(self, *_: object) -> None:
        self.hand_over()
        for descriptor in self._opened:
            os.close(descriptor)


def _read(descriptor: int) -> bytes:
    """All of a file; nothing if there is none (-1)."""
    size, data = os.fstat(descriptor).st_size if descriptor >= 0 else 0, b""
    while len(data) < size:
        data += os.pread(descriptor, size - len(data), len(data))
    return data
