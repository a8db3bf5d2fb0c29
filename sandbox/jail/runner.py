"""Runs programs in zygotes, one at a time, and says how they ended. A worker judges with one of them.

order.py         what a zygote is asked to do
compiler.py      compiles the program before its first run
warm_zygotes.py  the zygotes that do it, and the cgroup around them
run_files.py     what goes into a run and comes out of it
outcome.py       how it ended
"""

import os
import signal
import time

from sandbox import languages
from sandbox.errors import ExecutionLost, KilledFromOutside
from sandbox.jail import cgroups
from sandbox.jail.child import Job
from sandbox.jail.compiled import Compiled
from sandbox.jail.compiler import Compiler
from sandbox.jail.configuration import NONE, Configuration
from sandbox.jail.order import Order, make_order
from sandbox.jail.outcome import Finished, Lost, Memory, Report, loss_of, outcome_of
from sandbox.jail.run_files import Pipes, RunFiles
from sandbox.jail.spawn import Kind
from sandbox.jail.warden import Warden
from sandbox.jail.warm_zygotes import WarmZygotes
from sandbox.jail.zygotes import ZygoteLost
from sandbox.program import Limits, Outcome, Program, RunResult

ATTEMPTS = 3  # attempts to run what the sandbox has lost, before the run is reported as lost
_PATIENCE_SECONDS = 30  # after the time in which a run must have ended, until a zygote counts as hung
_SOURCE_SHARE = 4  # a program's text may take a quarter of its run's memory at most: it lies in the run's /tmp


class Runner:
    """Runs programs one at a time; see WarmZygotes for the parameters.

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
        self._seed = configuration.seed
        self._has_wall = configuration.level != NONE
        self._compiler = Compiler(self.execute, self._seed, warden if configuration.shared else None)
        self._zygotes = WarmZygotes(configuration, warden, cgroup, place, ends)

    @property
    def layers(self) -> dict[str, str]:
        """The layers that isolate a run: name -> how."""
        return self._zygotes.layers

    def order(
        self, op: str, program: Program, limits: Limits, entry_point: str = "", *, referee: bool = False
    ) -> Order:
        """Return an order, see make_order. Raises ValueError."""
        return make_order(op, program, limits, seed=self._seed, entry_point=entry_point, referee=referee)

    def run(self, order: Order, stdin: bytes) -> RunResult:
        """Compile a program and run it. Raises as compile and execute do."""
        compiled = self.compile(order.program)
        return compiled if isinstance(compiled, RunResult) else self.execute(order, compiled, stdin)

    def compile(self, program: Program) -> Compiled | RunResult:
        """Return the compiled program, or why there is none; see Compiler.compile."""
        return self._compiler.compile(program)

    def execute(self, order: Order, compiled: Compiled, stdin: bytes) -> RunResult:
        """Run a compiled program, again if the sandbox lost the run. Raises ExecutionLost or KilledFromOutside."""
        lost, was_killed = Lost(""), False
        for _ in range(ATTEMPTS):
            attempt = self.attempt(order, compiled, stdin)
            if isinstance(attempt, Lost):
                lost = attempt
            elif attempt.was_killed and not was_killed:
                was_killed = True  # by a process or thread of its own, or from outside: the next attempt shows which
            else:
                return attempt.result
        if lost.with_zygote and not self._has_wall:
            # Then a program can kill its zygote, and no other program has done so three times.
            return RunResult(Outcome.VIOLATION, -signal.SIGKILL, b"", lost.reason.encode(), 0, 0, 0)
        raise ExecutionLost(f"a run was lost {ATTEMPTS} times: {lost.reason}")

    def attempt(self, order: Order, compiled: Compiled, stdin: bytes | Pipes) -> Finished | Lost:
        """Try once to run a compiled program. Raises KilledFromOutside."""
        kind = self._zygotes.kind_for(order)
        with RunFiles(order, stdin) as run_files:
            if _text_is_too_large(order.job, compiled):
                return _refuse_for_its_text(order.job)
            try:
                report = self._run_in_zygote(kind, order, compiled, run_files)
            except ZygoteLost as error:
                self._zygotes.discard(kind)
                return Lost(f"the zygote was lost: {error}", with_zygote=True)
            except cgroups.NotIdle as error:
                self._zygotes.renew()
                return Lost(str(error))
            try:
                memory = self._zygotes.end_run(report)
            except OSError as error:
                return Lost(str(error))
            return loss_of(report, memory) or _finish(order.job, report, memory, run_files)

    def _run_in_zygote(self, kind: Kind, order: Order, compiled: Compiled, run_files: RunFiles) -> Report:
        """Have a zygote run the program, and wait for its report. Raises ZygoteLost and NotIdle."""
        job = order.job
        zygote = self._zygotes.begin_run(kind, job)
        artifact = compiled.artifact
        if zygote.shares_uid and job.op == "run" and languages.load(job.language).EXECUTABLE:
            # The file's owner can write messages to the next run into its attributes, so each run gets a copy.
            artifact = run_files.copy(artifact)
        zygote.begin(order.encoded, [compiled.source, artifact, *run_files.handed])
        run_files.hand_over()
        if not zygote.ends_within(job.wall_seconds):
            self._zygotes.raise_weight()
        return Report.from_answer(zygote.end(job.longest_seconds + _PATIENCE_SECONDS))

    def make_ready(self, order: Order) -> None:
        """Start the zygote that the order needs, if there is none, or if so much is left of earlier runs that nothing
        can run beside it. Raises ZygoteLost.
        """
        try:
            self._zygotes.ready(self._zygotes.kind_for(order))
        except cgroups.NotIdle as error:
            raise ZygoteLost(str(error)) from error

    def close(self) -> None:
        self._zygotes.close()


def _text_is_too_large(job: Job, compiled: Compiled) -> bool:
    n_bytes = os.fstat(compiled.source).st_size
    return job.op != "compile" and n_bytes > (job.memory_mb << 20) // _SOURCE_SHARE


def _refuse_for_its_text(job: Job) -> Finished:
    message = b"the program's text alone takes too much of its memory"
    result = RunResult(Outcome.OUT_OF_MEMORY, -signal.SIGKILL, b"", message, 0, 0, job.memory_mb)
    return Finished(result, time.monotonic())


def _finish(job: Job, report: Report, memory: Memory, run_files: RunFiles) -> Finished:
    """Read what a run has left and classify it. Raises KilledFromOutside."""
    printed, said = run_files.printed(), run_files.said()
    exit_code = os.waitstatus_to_exitcode(report.status)
    outcome = outcome_of(job, report, exit_code, max(len(printed), len(said)), memory)
    was_killed = outcome is Outcome.SIGNALLED and report.killed
    if was_killed and report.killed_from_outside:
        raise KilledFromOutside("a run was killed by SIGKILL, which came from outside")
    result = RunResult(
        outcome,
        exit_code,
        printed,
        said,
        report.cpu_seconds,
        report.wall_seconds,
        memory.peak_mb,
        run_files.result(),
        run_files.fetched() if not memory.exceeded else {},
    )
    return Finished(result, report.ended, was_killed)
