"""Execution of runs in zygotes, one at a time."""

import os
import signal
import time

from sandbox import languages
from sandbox.errors import ExecutionLost, KilledExternally
from sandbox.jail.child import RunParams
from sandbox.jail.compile_cache import CompiledProgram
from sandbox.jail.run_classification import FinishedRun, LostRun, MemoryUsage, ZygoteReport, classify, find_loss
from sandbox.jail.run_spec import RunSpec, make_run_spec
from sandbox.jail.spawn import ZygoteKind
from sandbox.jail.warden import WardenClient
from sandbox.jail.worker_config import NONE, WorkerConfig
from sandbox.jail.zygote_client import ZygoteLost
from sandbox.jail.zygote_pool import ZygotePool
from sandbox.judging.compiler import Compiler
from sandbox.judging.run_files import RunFiles, StdioPipes
from sandbox.kernel import cgroups
from sandbox.program import Limits, Outcome, Program, RunResult

MAX_ATTEMPTS = 3  # maximum number of attempts of a lost run
_HANG_SECONDS = 30  # grace period for the zygote's report of a run
_SOURCE_DIVISOR = 4  # the source file, which is in /tmp, may use a quarter of the run's memory


class Runner:
    """Runner of programs, one at a time, with a separate pool of zygotes."""

    def __init__(self, configuration: WorkerConfig, warden: WardenClient, zygotes: ZygotePool) -> None:
        self._seed = configuration.seed
        self._is_isolated = configuration.level != NONE
        self._compiler = Compiler(self.execute, self._seed, warden if configuration.shared else None)
        self._zygotes = zygotes

    @property
    def layers(self) -> dict[str, str]:
        return self._zygotes.layers

    def make_run_spec(
        self, op: str, program: Program, limits: Limits, entry_point: str = "", *, referee: bool = False
    ) -> RunSpec:
        """Return a run spec; see run_spec.make_run_spec. Raises ValueError."""
        return make_run_spec(op, program, limits, seed=self._seed, entry_point=entry_point, referee=referee)

    def run(self, run_spec: RunSpec, stdin: bytes) -> RunResult:
        """Compile and run a program. Raises as compile and execute do."""
        compiled = self.compile(run_spec.program)
        return compiled if isinstance(compiled, RunResult) else self.execute(run_spec, compiled, stdin)

    def compile(self, program: Program) -> CompiledProgram | RunResult:
        return self._compiler.compile(program)

    def execute(self, run_spec: RunSpec, compiled: CompiledProgram, stdin: bytes) -> RunResult:
        """Run a compiled program; retry lost runs. Raises ExecutionLost or KilledExternally."""
        lost, was_killed = LostRun(""), False
        for _ in range(MAX_ATTEMPTS):
            attempt = self.attempt(run_spec, compiled, stdin)
            if isinstance(attempt, LostRun):
                lost = attempt
            elif attempt.was_killed and not was_killed:
                was_killed = True  # perhaps by an external process; a second attempt decides
            else:
                return attempt.result
        if lost.zygote_lost and not self._is_isolated:
            # Without isolation, a program can kill its zygote.
            return RunResult(Outcome.VIOLATION, -signal.SIGKILL, b"", lost.reason.encode(), 0, 0, 0)
        raise ExecutionLost(f"a run was lost {MAX_ATTEMPTS} times: {lost.reason}")

    def attempt(self, run_spec: RunSpec, compiled: CompiledProgram, stdin: bytes | StdioPipes) -> FinishedRun | LostRun:
        """Run a compiled program once. Raises KilledExternally."""
        kind = self._zygotes.select_kind(run_spec)
        with RunFiles(run_spec, stdin) as run_files:
            if _is_source_too_large(run_spec.run_params, compiled):
                return _make_source_too_large_run(run_spec.run_params)
            try:
                report = self._run_in_zygote(kind, run_spec, compiled, run_files)
            except ZygoteLost as error:
                self._zygotes.discard(kind)
                return LostRun(f"the zygote was lost: {error}", zygote_lost=True)
            except cgroups.CgroupUnusable as error:
                self._zygotes.replace_all()
                return LostRun(str(error))
            try:
                memory = self._zygotes.end_run(report)
            except OSError as error:
                return LostRun(str(error))
            return find_loss(report, memory) or _to_finished_run(run_spec.run_params, report, memory, run_files)

    def _run_in_zygote(
        self, kind: ZygoteKind, run_spec: RunSpec, compiled: CompiledProgram, run_files: RunFiles
    ) -> ZygoteReport:
        params = run_spec.run_params
        zygote = self._zygotes.begin_run(kind, params)
        artifact = compiled.artifact_fd
        if zygote.shares_uid and params.op == "run" and languages.load(params.language).EXECUTABLE:
            # Programs with the file's uid could pass data to the next run in its attributes.
            artifact = run_files.copy_sealed(artifact)
        zygote.start_run(run_spec.encoded_params, [compiled.source_fd, artifact, *run_files.zygote_fds])
        run_files.close_pipe_ends()
        if not zygote.wait_for_end(params.wall_seconds):
            self._zygotes.raise_weight()
        return ZygoteReport(**zygote.wait_for_response(params.max_seconds + _HANG_SECONDS))

    def prepare_zygote(self, run_spec: RunSpec) -> None:
        """Start the zygote for the run spec if none is ready. Raises ZygoteLost."""
        try:
            self._zygotes.get_ready_zygote(self._zygotes.select_kind(run_spec))
        except cgroups.CgroupUnusable as error:
            raise ZygoteLost(str(error)) from error

    def close(self) -> None:
        self._zygotes.close()


def _is_source_too_large(params: RunParams, compiled: CompiledProgram) -> bool:
    n_bytes = os.fstat(compiled.source_fd).st_size
    return params.op != "compile" and n_bytes > (params.memory_mb << 20) // _SOURCE_DIVISOR


def _make_source_too_large_run(params: RunParams) -> FinishedRun:
    message = b"the program's text alone takes too much of its memory"
    result = RunResult(Outcome.OUT_OF_MEMORY, -signal.SIGKILL, b"", message, 0, 0, params.memory_mb)
    return FinishedRun(result, time.monotonic())


def _to_finished_run(params: RunParams, report: ZygoteReport, memory: MemoryUsage, run_files: RunFiles) -> FinishedRun:
    """Read the outputs of a run and classify it. Raises KilledExternally."""
    stdout, stderr = run_files.read_stdout(), run_files.read_stderr()
    exit_code = os.waitstatus_to_exitcode(report.status)
    outcome = classify(params, report, exit_code, max(len(stdout), len(stderr)), memory)
    was_killed = outcome is Outcome.SIGNALLED and report.killed
    if was_killed and report.killed_from_outside:
        raise KilledExternally("a process outside the run killed it by SIGKILL")
    result = RunResult(
        outcome,
        exit_code,
        stdout,
        stderr,
        report.cpu_seconds,
        report.wall_seconds,
        memory.peak_mb,
        run_files.read_result(),
        run_files.read_fetched_files() if not memory.limit_exceeded else {},
    )
    return FinishedRun(result, report.end_time, was_killed)
