"""A worker: trusted, outside the namespaces, one submission at a time.

It is two processes: a warden with its caller's privileges, which starts zygotes (warden.py), and a judge with none,
which holds the suite, hands inputs to its runner one by one and gives the verdicts. Both live as long as the process
that started them, and take zygotes, runs and cgroups with them when they go.
"""

import contextlib
import math
import os
import resource
import select
import shutil
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from functools import partial
from typing import NoReturn

from sandbox import checkers, languages, referee
from sandbox.cases import INTERACTIVE, Case, Referee, Suite
from sandbox.errors import BackendUnavailable, ExecutionLost, RefereeFailed, SandboxError
from sandbox.jail import cgroups, delegation, linux, referee_trials, spawn
from sandbox.jail.assertions import AssertionRuns, GivenCode
from sandbox.jail.call_runs import CallRuns
from sandbox.jail.child import Instructions
from sandbox.jail.compiled import Compiled
from sandbox.jail.configuration import Configuration
from sandbox.jail.interactive import Side, recite, talk
from sandbox.jail.order import Order
from sandbox.jail.runner import Runner
from sandbox.jail.warden import Warden, keep
from sandbox.jail.wire import Channel
from sandbox.judge import Judgement, Ran, judge
from sandbox.program import Invocation, Limits, Outcome, Program, RunResult
from sandbox.request import JudgeRequest, Request, RunRequest

BEAT = b"\0"  # a heartbeat
_LEAST_MEMORY = 2 << 30  # bytes of address space
_COPIES = 12  # the most copies of a request, and of what programs write, while they are compared
_RUNNERS = 2  # one for submissions and what judges them, and one for referees that talk to them meanwhile


class Worker:
    """Carries out the requests of one caller.

    groups   a cgroup for each runner, or why there is none
    ends     events that end everything: descriptor -> poll mask

    Raises BackendUnavailable if the machine cannot isolate as configured.
    """

    def __init__(
        self, configuration: Configuration, warden: Warden, groups: list[cgroups.Cgroup | str], ends: dict[int, int]
    ) -> None:
        self._configuration = configuration
        self._warden = warden
        self._groups = groups
        self.ends = ends
        self.answering = False
        self._runner = Runner(configuration, warden, groups[0], 0, ends)
        self._second: Runner | None = None  # of referees that talk to programs while these run
        self._trials = referee_trials.Trials()
        self._given_code = GivenCode(self._runner)

    @property
    def layers(self) -> dict[str, str]:
        """The layers that isolate a run: name -> how."""
        return self._runner.layers

    def run(self, program: Program, invocation: Invocation, limits: Limits) -> RunResult:
        """Run a program once. Raises ExecutionLost if the sandbox fails repeatedly."""
        order = self._runner.order("run", program, limits)
        order = order.instructed(Instructions(arguments=invocation.arguments, fetch=invocation.fetch))
        if invocation.files:
            order = order.with_files(dict(invocation.files))
        return self._runner.run(order, invocation.stdin)

    def judge(self, program: Program, suite: Suite, *, run_all: bool, keep_outputs: bool) -> Judgement:
        """Judge a program by a suite. Raises ExecutionLost, and whatever judge.judge raises."""
        if suite.assertions is not None:
            runs = AssertionRuns(program, suite, self._runner, self._second_runner, self._given_code)
            return judge(suite, runs.run, run_all=run_all, keep_outputs=keep_outputs)
        if suite.entry_point is not None:
            calls = CallRuns(program, suite, self._runner)
            return judge(suite, calls.run, run_all=run_all, keep_outputs=keep_outputs, alone=calls.run_alone)
        order = self._runner.order("run", program, suite.limits)

        def run_case(case: Case, left_seconds: float) -> Ran:
            within = order.within(min(suite.limits.wall_seconds, left_seconds))
            if suite.checker == INTERACTIVE and suite.referee is not None:
                return self._talk(within, case, suite.referee, left_seconds, suite)
            result = self._runner.run(within, _encoded(case.input))
            if suite.referee is None or result.outcome is not Outcome.EXITED or result.exit_code != 0:
                return Ran(result)
            return self._ruling(case, result, suite.referee, left_seconds - result.wall_seconds, suite)

        return judge(suite, run_case, run_all=run_all, keep_outputs=keep_outputs)

    def _ruling(self, case: Case, result: RunResult, judge: Referee, left_seconds: float, suite: Suite) -> Ran:
        """Have the referee rule on an output. Raises RefereeFailed if it fails for a reason other than the output."""
        compiled = _compiled_referee(judge, self._runner)
        if left_seconds <= 0:
            return Ran(referee.as_timed_out(result))

        def ask(output: bytes, wall_seconds: float) -> RunResult:
            order = self._referee_order(judge, case, {referee.OUTPUT: output}).within(wall_seconds)
            return self._runner.execute(order, compiled, b"")

        answer = ask(result.stdout, min(referee.LIMITS.wall_seconds, left_seconds))
        try:
            return Ran(result, referee.ruling(answer, judge), answer.wall_seconds)
        except RefereeFailed as failure:
            trial = referee_trials.outputs(case, suite)
            if not self._trials.passes(judge, case, trial, ask, _trial_seconds(suite.limits)):
                raise
            if answer.outcome is Outcome.TIMED_OUT and left_seconds < referee.LIMITS.wall_seconds:
                return Ran(referee.as_timed_out(result), None, answer.wall_seconds)
            return Ran(result, referee.ruling_of_failure(failure), answer.wall_seconds)

    def _talk(self, order: Order, case: Case, judge: Referee, left_seconds: float, suite: Suite) -> Ran:
        """Run a program and its interactive referee side by side. Raises as interactive.talk does."""
        compiled = self._runner.compile(order.program)
        if isinstance(compiled, RunResult):
            return Ran(compiled)
        second = self._second_runner()
        partner = Side(self._referee_order(judge, case, {}), _compiled_referee(judge, second), second)

        def is_sound(cpu_seconds: float | None) -> bool:
            def ask(text: bytes, wall_seconds: float) -> RunResult:
                return recite(text, partner.within(wall_seconds, cpu_seconds))

            trial = referee_trials.monologues(case, suite)
            return self._trials.passes(judge, case, trial, ask, _trial_seconds(suite.limits), cpu_seconds)

        return talk(Side(order, compiled, self._runner), partner, judge, left_seconds, is_sound)

    def _second_runner(self) -> Runner:
        if self._second is None:
            self._second = Runner(self._configuration, self._warden, self._groups[1], 1, self.ends)
        return self._second

    def _referee_order(self, judge: Referee, case: Case, contents: dict[str, bytes]) -> Order:
        contents = {referee.INPUT: _encoded(case.input), referee.ANSWER: _encoded(case.expected), **contents}
        order = self._runner.order("run", judge.program, referee.LIMITS, referee=True)
        return order.instructed(Instructions(arguments=referee.arguments(judge.convention))).with_files(contents)

    def close(self) -> None:
        for runner in (self._runner, self._second):
            if runner is not None:
                runner.close()


def _compiled_referee(judge: Referee, runner: Runner) -> Compiled:
    """Return the compiled referee. Raises RefereeFailed if it does not compile."""
    compiled = runner.compile(judge.program)
    if isinstance(compiled, RunResult):
        message = compiled.stderr.decode("utf-8", "replace").strip()
        raise RefereeFailed(f"it does not compile: {message[:500]}")
    return compiled


def _trial_seconds(limits: Limits) -> float:
    """Return the time for a trial of a referee. If it needs more than a submission has, the limits are wrong."""
    return min(referee.LIMITS.wall_seconds, limits.budget_seconds or math.inf)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def main(socket_fd: int, caller_pid: int) -> int:
    """Serve one caller on this machine until it goes away; return an exit status."""
    try:
        caller_gone = os.pidfd_open(caller_pid)
    except ProcessLookupError:
        return 0
    ends = {caller_gone: select.POLLIN, socket_fd: select.POLLRDHUP}
    status, remove_shared = serve(Channel(socket_fd, socket_fd), ends)
    if select.select([caller_gone], [], [], 0)[0]:
        remove_shared()  # the caller cannot do it any more
    return status


def main_in_container() -> int:
    """Serve the caller at the other end of our standard streams until it hangs up; send heartbeats on stderr."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # as pid 1 we are immune to the signals that we have no handler for
    return serve(Channel(0, 1), {0: 0}, heart=2)[0]


def serve(channel: Channel, ends: dict[int, int], heart: int = -1) -> tuple[int, Callable[[], None]]:
    """Serve one caller until it goes away; return an exit status, and a function that removes the shared directory.

    ends    events that tell that the caller is gone: descriptor -> poll mask
    heart   descriptor that gets a BEAT each second while the caller waits for an answer; -1: none

    We become the warden (warden.py), and the judge is our child; in a container it is the other way round.
    """
    configuration: Configuration = channel.receive_request()
    for name in checkers.names():  # which the judge may not be able to read any more
        checkers.load(name)
    for name in languages.names():
        languages.load(name)
    subtree, groups = _cgroups(configuration.no_scope)
    remove_shared = _remover(configuration.shared)
    wardens, judges = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    uid = spawn.judges_uid()

    def judge() -> None:
        wardens.close()
        _give_up_privileges(uid, parent=not configuration.alone)
        _judge(channel, configuration, Warden(judges), groups, ends, heart)

    def guard(judge_pid: int) -> int:
        judges.close()
        channel.close()
        owned = [group if isinstance(group, cgroups.Cgroup) else None for group in groups]
        return keep(judge_pid, wardens, subtree, owned, configuration)

    if configuration.alone:  # In a container the judge is the first process: joining it gains no privileges.
        first = os.getpid()
        if os.fork() == 0:
            _end_with(lambda: guard(first))
        judge()
        return 0, remove_shared
    child = os.fork()
    if child == 0:
        _end_with(judge)
    return guard(child), remove_shared


def _remover(directory: str) -> Callable[[], None]:
    """Return a function that removes a directory, if there is one, even if its path leads elsewhere by then."""
    if not directory:
        return lambda: None
    parent = os.open(os.path.dirname(directory), os.O_RDONLY | os.O_DIRECTORY)
    return partial(shutil.rmtree, os.path.basename(directory), ignore_errors=True, dir_fd=parent)


def _end_with(part: Callable[[], object]) -> NoReturn:
    """Run this part of the worker, and then end the process. Called in a fork."""
    status = 1
    try:
        part()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _cgroups(no_scope: str) -> tuple[delegation.Subtree | None, list[cgroups.Cgroup | str]]:
    """Return where cgroups may be made, and a cgroup for each runner, or why there is none."""
    groups: list[cgroups.Cgroup | str] = []
    try:
        subtree = delegation.find(no_scope)
        for number in range(_RUNNERS):
            groups.append(cgroups.create(subtree, str(number + 1)))
    except OSError as error:
        for group in groups:
            if isinstance(group, cgroups.Cgroup):
                group.remove()
        return None, [str(error)] * _RUNNERS
    return subtree, groups


def _give_up_privileges(uid: int, *, parent: bool) -> None:
    """Give up every privilege that judging does not need.

    uid      the user to become where we may; elsewhere the judge keeps its caller's user, but no capabilities
    parent   whether our parent is a part of the worker; if so, we end with it
    """
    if os.geteuid() == 0:
        with contextlib.suppress(OSError):  # in a user namespace that has but one
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
    with contextlib.suppress(OSError):
        linux.set_capabilities(0)
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    if parent:
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)  # after the ids, which would undo it


def _judge(
    channel: Channel,
    configuration: Configuration,
    warden: Warden,
    groups: list[cgroups.Cgroup | str],
    ends: dict[int, int],
    heart: int,
) -> None:
    """Answer one request after another until the caller goes away."""
    sys.set_int_max_str_digits(0)
    linux.give_freed_memory_back()  # of large outputs
    try:
        worker = Worker(configuration, warden, groups, ends)
    except BackendUnavailable as error:
        channel.answer(error)
        return
    _look_every_second(worker, heart)
    try:
        channel.answer_layers(worker.layers)
        while True:
            request: Request[object] = channel.receive_request()
            _bound_memory(channel.received_bytes, request.run_limits)
            worker.answering = True
            answer = _answer(worker, request)
            worker.answering = False  # nobody reads our heartbeats from now on, so they would pile up
            channel.answer(answer)
    except (EOFError, ConnectionError, SystemExit):
        return
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        worker.close()


def _bound_memory(n_bytes: int, limits: Limits) -> None:
    """Bound the memory of this process by what an honest request of this many bytes, with these limits, can need.

    What programs write is bounded already, and is not parsed if it cannot be right. This bound is for whatever we have
    overlooked.
    """
    bound = _LEAST_MEMORY + _COPIES * (n_bytes + 4 * limits.output_kb * 1024)
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (bound if hard == resource.RLIM_INFINITY else min(bound, hard), hard))


def _look_every_second(worker: Worker, heart: int) -> None:
    """Check every second, also while we compute, whether the caller is gone: end if so, else send a heartbeat."""

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


def _answer(worker: Worker, request: Request[object]) -> RunResult | Judgement | Exception:
    """Do what is asked, and return the answer, or an exception for the caller to raise."""
    try:
        match request:
            case RunRequest(program, invocation, limits):
                return worker.run(program, invocation, limits)
            case JudgeRequest(program, suite, run_all, keep_outputs):
                return worker.judge(program, suite, run_all=run_all, keep_outputs=keep_outputs)
    except SandboxError as error:
        return error
    except OSError as error:
        return ExecutionLost(str(error))
    except MemoryError:
        return ExecutionLost("the judge has no memory left for this request")
    except RefereeFailed as error:
        judging = isinstance(request, JudgeRequest) and request.suite.assertions is not None
        return RefereeFailed(f"the suite's own {'tests' if judging else 'referee'} failed: {error}")
    except (ValueError, TypeError, KeyError) as error:
        return error  # the suite's fault: the caller raises it
    raise ValueError(f"unknown request {type(request).__name__}")
