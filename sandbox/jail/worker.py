"""A worker process: trusted, outside the namespaces, one submission at a time.

It holds the suite, hands inputs to its runner one by one and gives the verdicts. It lives as long as the process that
started it, and takes zygotes, runs and cgroups with it when it goes.
"""

import os
import select
import shutil
import signal
import sys
from typing import Any

from sandbox import referee
from sandbox.cases import INTERACTIVE, Case, Referee, Suite
from sandbox.errors import BackendUnavailable, ExecutionLost, RefereeFailed, SandboxError
from sandbox.jail import linux, wire
from sandbox.jail.compiled import Compiled
from sandbox.jail.runner import Configuration, Order, Runner
from sandbox.jail.talk import talk
from sandbox.judge import Judgement, Ran, judge
from sandbox.program import Invocation, Limits, Outcome, Program, RunResult

BEAT = b"\0"


class Worker:
    """Raises BackendUnavailable if the machine cannot isolate as configured."""

    def __init__(self, configuration: Configuration, ends: dict[int, int]) -> None:
        self._configuration = configuration
        self.ends = ends
        self.answering = False
        self._runner = Runner(configuration, ends, "1")
        self._second: Runner | None = None  # of referees that talk to programs while these run

    @property
    def layers(self) -> dict[str, str]:
        """What isolates a run, by name, and how."""
        return self._runner.layers

    def run(self, program: Program, invocation: Invocation, limits: Limits) -> RunResult:
        """Run a program once. Raises ExecutionLost if the sandbox fails at it time and again."""
        order = self._runner.order("run", program, limits)
        if invocation.arguments:
            order = order.with_arguments(invocation.arguments)
        if invocation.files:
            order = order.with_files(dict(invocation.files))
        if invocation.fetch:
            order = order.with_fetched(invocation.fetch)
        return self._runner.run(order, invocation.stdin)

    def judge(self, program: Program, suite: Suite, *, run_all: bool) -> Judgement:
        """Raises ExecutionLost, and as judge.judge does."""
        op = "run" if suite.entry_point is None else "call"
        order = self._runner.order(op, program, suite.limits, suite.entry_point or "")

        def run_case(case: Case, wall_seconds: float) -> Ran:
            if suite.checker == INTERACTIVE and suite.referee is not None:
                return self._talk(order.within(wall_seconds), case, suite.referee)
            result = self._runner.run(order.within(wall_seconds), _encoded(case.input))
            if suite.referee is None or result.outcome is not Outcome.EXITED or result.exit_code != 0:
                return result, None
            return result, self._ruling(case, result.stdout, suite.referee)

        return judge(suite, run_case, run_all=run_all)

    def _ruling(self, case: Case, output: bytes, judge: Referee) -> referee.Ruling:
        """What the referee says of an output. Raises RefereeFailed."""
        order = self._referee_order(judge, case, {referee.OUTPUT: output})
        compiled = _compiled_referee(judge, self._runner)
        return referee.ruling(self._runner.execute(order, compiled, b""), judge)

    def _talk(self, order: Order, case: Case, judge: Referee) -> Ran:
        compiled = self._runner.compile(order.program)
        if isinstance(compiled, RunResult):
            return compiled, None
        if self._second is None:
            self._second = Runner(self._configuration, self.ends, "2")
        theirs = self._referee_order(judge, case, {})
        return talk(order, compiled, self._runner, theirs, _compiled_referee(judge, self._second), self._second, judge)

    def _referee_order(self, judge: Referee, case: Case, contents: dict[str, bytes]) -> Order:
        contents = {referee.INPUT: _encoded(case.input), referee.ANSWER: _encoded(case.expected), **contents}
        order = self._runner.order("run", judge.program, referee.LIMITS)
        return order.with_arguments(referee.arguments(judge.convention)).with_files(contents)

    def close(self) -> None:
        for runner in (self._runner, self._second):
            if runner is not None:
                runner.close()


def _compiled_referee(judge: Referee, runner: Runner) -> Compiled:
    compiled = runner.compile(judge.program)
    if isinstance(compiled, RunResult):
        words = compiled.stderr.decode("utf-8", "replace").strip()
        raise RefereeFailed(f"it does not compile: {words[:500]}")
    return compiled


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def main(socket_fd: int, caller_pid: int) -> None:
    """Serve one caller on this machine until it goes away."""
    try:
        caller_gone = os.pidfd_open(caller_pid)
    except ProcessLookupError:
        return
    shared = serve(wire.Channel(socket_fd, socket_fd), {caller_gone: select.POLLIN, socket_fd: select.POLLRDHUP})
    if shared and select.select([caller_gone], [], [], 0)[0]:
        shutil.rmtree(shared, ignore_errors=True)  # the caller's, who cannot do it any more


def main_in_container() -> None:
    """Serve the caller at the other end of our standard streams until it hangs up; on stderr our heart beats."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # as pid 1 we are immune to the signals that we have no handler for
    serve(wire.Channel(0, 1), {0: 0}, heart=2)


def serve(channel: wire.Channel, ends: dict[int, int], heart: int = -1) -> str:
    """Serve one caller until it goes away, which one of `ends` tells: descriptor -> poll mask. Returns the directory
    that its workers share. heart: descriptor that gets a BEAT each second while an answer is not yet there."""
    sys.set_int_max_str_digits(0)
    linux.give_freed_memory_back()  # of large outputs
    configuration: Configuration = channel.receive()
    try:
        worker = Worker(configuration, ends)
    except BackendUnavailable as error:
        channel.send(error)
        return configuration.shared
    _look_every_second(worker, heart)
    try:
        channel.send(worker.layers)
        while True:
            request = channel.receive()
            worker.answering = True
            answer = _answer(worker, request)
            worker.answering = False  # nobody listens to a heart then: what it says would pile up
            channel.send(answer)
    except (EOFError, ConnectionError, SystemExit):
        return configuration.shared
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        worker.close()


def _look_every_second(worker: Worker, heart: int) -> None:
    """Look whether the caller is gone also while we compute, and end if so; if not, say that we are alive."""

    def look(*_: object) -> None:
        poll = select.poll()
        for descriptor, mask in worker.ends.items():
            poll.register(descriptor, mask)
        if poll.poll(0):
            raise SystemExit
        if heart >= 0 and worker.answering:
            os.write(heart, BEAT)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, 1, 1)


def _answer(worker: Worker, request: tuple[Any, ...]) -> Any:
    try:
        match request:
            case ("run", program, invocation, limits):
                return worker.run(program, invocation, limits)
            case ("judge", program, suite, run_all):
                return worker.judge(program, suite, run_all=run_all)
    except SandboxError as error:
        return error
    except OSError as error:
        return ExecutionLost(str(error))
    except RefereeFailed as error:
        return RefereeFailed(f"the suite's own referee failed: {error}")
    except (ValueError, TypeError, KeyError) as error:
        return error  # the suite's fault: the caller raises it
    raise ValueError(f"unknown request {request[0]!r}")
